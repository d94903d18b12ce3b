"""Multilayer perceptrons in NumPy, without torch's overhead per call, for workers.

Parameters are flat, layer by layer: weights `[inputs, outputs]` row by row, then biases, so that
one layer is one contiguous matrix `[inputs + 1, outputs]` for the input with a 1 appended.
"""

from itertools import pairwise

import numpy as np

from drumline.policies.heads import action_function
from drumline.policies.initial_layers import Initialization, uniform
from drumline.policies.spec import PolicySpec

OBSERVATION_CLIP = 5.0
PUBLISHED = Initialization()
"""Columns of norm 1 (hidden) and 0.01 (output), biases 0: the reference's."""
_ZERO = np.float32(0.0)


def layer_shapes(spec: PolicySpec) -> list[tuple[int, int]]:
    """Return (rows, columns) of each layer's matrix, the bias row included."""
    sizes = [spec.observation_size, *spec.hidden, spec.head.output_size]
    extra = 1 if spec.bias else 0
    return [(sizes[i] + extra, sizes[i + 1]) for i in range(len(sizes) - 1)]


def tensor_shapes(spec: PolicySpec) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of weights `[inputs, outputs]` and biases in the order of the vector."""
    if not spec.bias:
        return tuple(layer_shapes(spec))
    return tuple(shape for rows, n in layer_shapes(spec) for shape in ((rows - 1, n), (n,)))


def initial_vector(
    spec: PolicySpec, rng: np.random.Generator, rule: Initialization = PUBLISHED
) -> np.ndarray:
    """Return the initial parameters `[P]` by a rule, or all zeros (ARS)."""
    layers: list[np.ndarray] = []
    shapes = layer_shapes(spec)
    for number, (rows, columns) in enumerate(shapes):
        inputs = rows - 1 if spec.bias else rows
        weights = np.zeros((rows, columns), dtype=np.float32)
        if not spec.zero_init:
            last = number == len(shapes) - 1
            weights[:inputs] = rule.weights(rng, inputs, columns, last=last)
            if spec.bias:
                weights[inputs] = rule.bias(rng, inputs, columns)
        layers.append(weights.ravel())
    return np.concatenate(layers)


def uniform_vector(sizes: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Weights and biases uniform in ±1/√inputs (torch's default for Linear), flat `[P]`."""
    layers: list[np.ndarray] = []
    for inputs, outputs in pairwise(sizes):
        layers.append(uniform(rng, inputs, ((inputs + 1) * outputs,)).astype(np.float32))
    return np.concatenate(layers)


class MLPPolicy:
    """A policy on one observation at a time; every buffer is made once."""

    def __init__(self, spec: PolicySpec):
        shapes = layer_shapes(spec)
        self.parameter_count = sum(rows * columns for rows, columns in shapes)
        self.vector = aligned_zeros(self.parameter_count)
        self._matrices: list[np.ndarray] = []
        start = 0
        for rows, columns in shapes:
            piece = self.vector[start : start + rows * columns]
            self._matrices.append(piece.reshape(rows, columns))
            start += rows * columns
        # Each layer's input ends with a constant 1, which multiplies the bias row.
        self._inputs = [aligned_zeros(rows) for rows, _ in shapes]
        sizes = [rows - 1 if spec.bias else rows for rows, _ in shapes]
        if spec.bias:
            for values in self._inputs:
                values[-1] = 1.0
        self._values = [values[:n] for values, n in zip(self._inputs, sizes, strict=True)]
        self._output = aligned_zeros(shapes[-1][1])
        self._steps = list(
            zip(self._inputs, self._matrices, [*self._values[1:], self._output], strict=True)
        )
        self._normalize, self._scales = spec.normalize, spec.scale_bytes
        self._scale = np.float32(spec.observation_scale)
        self._mean = np.zeros(spec.observation_size)
        self._inverse_std = np.ones(spec.observation_size)
        self._low = np.full(spec.observation_size, -OBSERVATION_CLIP)
        self._high = -self._low
        self._normalized = np.zeros(spec.observation_size)
        self._relu = spec.activation == "relu"
        self.to_action = action_function(spec.head)

    def load_vector(self, parameters: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        self.vector[:] = parameters

    def loaded(self) -> None:
        """Do nothing: `output` reads the parameters in place."""

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the observation moments `[D]` of a version."""
        self._mean[:] = mean
        self._inverse_std[:] = inverse_std

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]`, valid until the next call."""
        first = self._values[0]
        if self._normalize:
            row = self._normalized  # one precision for all: NumPy takes longer where it converts
            row[:] = observation.reshape(-1)
            np.subtract(row, self._mean, out=row)
            np.multiply(row, self._inverse_std, out=row)
            np.maximum(row, self._low, out=row)
            np.minimum(row, self._high, out=row)
            first[:] = row
        else:
            first[:] = observation.reshape(-1)
            if self._scales:
                np.multiply(first, self._scale, out=first)
        out = self._output
        for inputs, matrix, outputs in self._steps:
            np.dot(inputs, matrix, out=outputs)
            if outputs is not out:
                if self._relu:
                    np.maximum(outputs, _ZERO, out=outputs)
                else:
                    np.tanh(outputs, out=outputs)
        return out

    def act(self, observation: np.ndarray) -> object:
        """Return the noiseless action."""
        return self.to_action(self.output(observation), None)


def aligned_zeros(size: int) -> np.ndarray:
    """Return float32 zeros on a 64-byte boundary, so that every process computes equal bits."""
    memory = np.zeros(size * 4 + 64, dtype=np.uint8)
    offset = -memory.ctypes.data % 64
    return memory[offset : offset + size * 4].view(np.float32)
