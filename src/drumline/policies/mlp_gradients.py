"""The backward pass of the actor-critic MLP in NumPy, without autograd's bookkeeping.

For a minibatch of 64 rows a torch graph of this size costs five times as much as its arithmetic
(measured). Every operation here writes into memory made once, and nothing is recorded.
"""

from itertools import pairwise

import numpy as np
from jaxtyping import Float32

from drumline.policies.network_spec import NetworkSpec


class MLPGradients:
    """Forward and backward passes over one flat vector `[P]` and its gradient `[P]`, in place.

    The layout of the vector is that of `mlp_actor_critic`.
    """

    def __init__(
        self,
        spec: NetworkSpec,
        parameters: Float32[np.ndarray, " P"],
        gradient: Float32[np.ndarray, " P"],
    ):
        if not spec.is_mlp:
            raise ValueError(f"--network {spec.network} has no gradient in NumPy, only mlp has")
        self._gaussian = spec.head.kind == "gaussian"
        actions = spec.head.sizes[0] if self._gaussian else spec.head.output_size
        self._actions = actions
        start = actions if self._gaussian else 0
        self._log_std = parameters[:start]
        self._log_std_gradient = gradient[:start]
        trunks: list[_Trunk] = []
        for outputs in (actions, 1):
            sizes = (spec.observation_size, *spec.hidden, outputs)
            trunk = _Trunk(sizes, parameters[start:], gradient[start:])
            trunks.append(trunk)
            start += trunk.size
        self._policy, self._value = trunks
        if start != parameters.size:
            raise ValueError(f"this network has {start} parameters, got {parameters.size}")

    def forward(
        self, rows: Float32[np.ndarray, "N D"]
    ) -> tuple[Float32[np.ndarray, "N O"], Float32[np.ndarray, " N"]]:
        """Return outputs and values; keep activations for `backward`, so `rows` may not change."""
        outputs = self._policy.forward(rows)
        values = self._value.forward(rows)[:, 0]
        if not self._gaussian:
            return outputs, values
        full = np.empty((len(rows), 2 * self._actions), np.float32)
        full[:, : self._actions] = outputs
        full[:, self._actions :] = self._log_std
        return full, values

    def backward(
        self, d_outputs: Float32[np.ndarray, "N O"], d_values: Float32[np.ndarray, " N"]
    ) -> None:
        """Set the gradient of a loss with these derivatives by the last outputs and values."""
        if self._gaussian:
            np.add.reduce(d_outputs[:, self._actions :], axis=0, out=self._log_std_gradient)
            d_outputs = d_outputs[:, : self._actions]
        self._policy.backward(d_outputs)
        self._value.backward(d_values[:, None])


class _Trunk:
    """Linear layers with tanh between them; weights `[outputs, inputs]` as in torch."""

    def __init__(self, sizes: tuple[int, ...], parameters: np.ndarray, gradient: np.ndarray):
        self._layers: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        start = 0
        for inputs, outputs in pairwise(sizes):
            end = start + inputs * outputs
            parts: list[np.ndarray] = []
            for vector in (parameters, gradient):
                parts += [
                    vector[start:end].reshape(outputs, inputs),
                    vector[end : end + outputs],
                ]
            self._layers.append((parts[0], parts[1], parts[2], parts[3]))
            start = end + outputs
        self.size = start
        self._sizes = sizes[1:]
        self._inputs: list[np.ndarray] = []
        self._rows = 0
        self._activations: list[np.ndarray] = []
        self._derivatives: list[np.ndarray] = []

    def forward(self, rows: np.ndarray) -> np.ndarray:
        """Return the outputs, valid until the next call."""
        if len(rows) != self._rows:
            self._rows = len(rows)
            self._activations = [_aligned(len(rows), size) for size in self._sizes]
            self._derivatives = [_aligned(len(rows), size) for size in self._sizes]
        self._inputs = [rows, *self._activations[:-1]]
        last = len(self._layers) - 1
        for number, (weight, bias, _, _) in enumerate(self._layers):
            out = self._activations[number]
            np.matmul(self._inputs[number], weight.T, out=out)
            out += bias
            if number != last:
                np.tanh(out, out=out)
        return self._activations[-1]

    def backward(self, derivative: np.ndarray) -> None:
        """Set the gradient of every layer."""
        for number in range(len(self._layers) - 1, -1, -1):
            weight, _, weight_gradient, bias_gradient = self._layers[number]
            np.matmul(derivative.T, self._inputs[number], out=weight_gradient)
            np.add.reduce(derivative, axis=0, out=bias_gradient)
            if number:
                before = self._derivatives[number - 1]
                np.matmul(derivative, weight, out=before)
                activation = self._activations[number - 1]
                np.multiply(activation, activation, out=activation)  # no longer needed
                np.subtract(1.0, activation, out=activation)
                before *= activation  # tanh' = 1 − tanh²
                derivative = before


def _aligned(rows: int, columns: int) -> np.ndarray:
    """Return an array at a multiple of 64 bytes, so that its address does not choose a kernel."""
    size = 4 * rows * columns
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(np.float32).reshape(rows, columns)
