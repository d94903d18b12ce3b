"""The actor-critic MLP in NumPy: two tanh trunks, one for the action and one for the value.

The parameter vector is laid out as torch registers the same network's parameters: the log std of a
Gaussian head first, then for each layer of the policy trunk and of the value trunk its weight
`[outputs, inputs]` and bias `[outputs]`.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from drumline.policies.network_spec import NetworkSpec
from drumline.policies.observations import normalized

_BYTE = np.float32(1.0 / 255.0)


class MLPInference:
    """The forward pass of an `mlp` network; every matrix product is one row times a matrix.

    Only this form is the same in every batch: BLAS picks its kernels by the number of rows
    (measured).
    """

    def __init__(self, spec: NetworkSpec):
        self._spec = spec
        self._outputs = (
            spec.head.sizes[0] if spec.head.kind == "gaussian" else spec.head.output_size
        )
        self._policy: list[tuple[np.ndarray, np.ndarray]] = []
        self._value: list[tuple[np.ndarray, np.ndarray]] = []
        self._log_std: np.ndarray | None = None
        self._mean = np.zeros(spec.observation_size)
        self._inverse_std = np.ones(spec.observation_size)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the published arrays of a version."""
        vector, start = arrays["parameters"], 0
        if self._spec.head.kind == "gaussian":
            self._log_std = vector[: self._outputs]
            start = self._outputs
        trunks = []
        for outputs in (self._outputs, 1):
            layers = []
            for rows, columns in pairwise(
                (self._spec.observation_size, *self._spec.hidden, outputs)
            ):
                weight = vector[start : start + rows * columns].reshape(columns, rows)
                start += rows * columns
                # Copied into the order in which one row times the matrix reads it.
                layers.append((np.ascontiguousarray(weight.T), vector[start : start + columns]))
                start += columns
            trunks.append(layers)
        self._policy, self._value = trunks
        if start != vector.size:
            raise ValueError(f"this network has {start} parameters, got {vector.size}")
        if self._spec.normalize:
            self._mean = arrays["observation_mean"]
            self._inverse_std = arrays["observation_inverse_std"]

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]`."""
        # In C order whatever the caller's strides: strides choose the kernel of a matrix product.
        if observations.dtype == np.uint8:
            rows = observations.astype(np.float32, order="C") * _BYTE
        elif self._spec.normalize:
            rows = normalized(observations, self._mean, self._inverse_std)
        else:
            rows = observations.astype(np.float32, order="C")
        rows = rows.reshape(len(rows), 1, self._spec.observation_size)
        outputs = _trunk(self._policy, rows)
        values = _trunk(self._value, rows)[:, 0, 0]
        if self._log_std is None:
            return outputs[:, 0], values
        full = np.empty((len(rows), 2 * self._outputs), np.float32)
        full[:, : self._outputs] = outputs[:, 0]
        full[:, self._outputs :] = self._log_std
        return full, values


def _trunk(layers: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    last = len(layers) - 1
    for number, (weight, bias) in enumerate(layers):
        rows = np.matmul(rows, weight)
        rows += bias
        if number != last:
            np.tanh(rows, out=rows)
    return rows
