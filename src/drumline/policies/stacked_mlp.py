"""Multilayer perceptrons of several members, called once for an observation of each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline.policies.heads import Head, action_function, batch_action_function
from drumline.policies.mlp import OBSERVATION_CLIP, MLPPolicy, aligned_zeros, layer_shapes
from drumline.policies.spec import PolicySpec

_ZERO = np.float32(0.0)
_LINE = 16
"""Floats of a cache line: each member's arrays begin at one, as those of `MLPPolicy` do."""
_FEW = 2
"""Places for which a product each takes less time than a product of stacks."""
_CHECKED_CALLS = 4


class StackedMLP:
    """`MLPPolicy` for up to `count` members in places 0 … `count` − 1; every buffer is made once.

    Each member's output has the bits that `MLPPolicy` gives it alone: `equals_single` compares.
    """

    def __init__(self, spec: PolicySpec, count: int, dtype: Any = np.float64):
        """`dtype`: that of the observations."""
        act = batch_action_function(spec.head)
        assert act is not None, "only `stackable` policies come here"
        self.count = count
        self._to_actions, self._to_action = act, action_function(spec.head)
        shapes = layer_shapes(spec)
        parameters = _rows(count, sum(rows * columns for rows, columns in shapes))
        self.vectors = list(parameters)
        """Parameters `[P]` of each place, to be written."""
        observed = np.zeros((count, spec.observation_size), dtype)
        self.rows = list(observed)
        """The observation `[D]` of each place, to be written before `outputs`."""
        self.observations = [observed[:active].reshape(-1) for active in range(count + 1)]
        """Observations `[active · D]` of the first places."""
        # A row for each place: NumPy takes twice as long to stretch one over several.
        shape = count, spec.observation_size
        normalized, self._mean, self._inverse_std = np.zeros(shape), np.zeros(shape), np.ones(shape)
        low, high = np.full(shape, -OBSERVATION_CLIP), np.full(shape, OBSERVATION_CLIP)
        self._normalize, self._relu = spec.normalize, spec.activation == "relu"
        self._scales, self._scale = spec.scale_bytes, np.float32(spec.observation_scale)
        matrices: list[np.ndarray] = []
        start = 0
        for rows, columns in shapes:
            end = start + rows * columns
            matrices.append(parameters[:, start:end].reshape(count, rows, columns))
            start = end
        inputs = [_rows(count, rows) for rows, _ in shapes]
        values = [
            each[:, : rows - spec.bias] for each, (rows, _) in zip(inputs, shapes, strict=True)
        ]
        if spec.bias:
            for each in inputs:
                each[:, -1] = 1.0
        outputs = [*values[1:], _rows(count, shapes[-1][1])]
        self._calls = [
            _Call(
                observed[:active],
                normalized[:active],
                self._mean[:active],
                self._inverse_std[:active],
                low[:active],
                high[:active],
                values[0][:active],
                [
                    _Layer(source[:active], matrix[:active], out[:active])
                    for source, matrix, out in zip(inputs, matrices, outputs, strict=True)
                ],
            )
            for active in range(count + 1)
        ]

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the observation moments `[D]` of all places."""
        self._mean[:] = mean
        self._inverse_std[:] = inverse_std

    def move(self, source: int, target: int) -> None:
        """Copy the parameters and the observation of one place to another."""
        self.vectors[target][:] = self.vectors[source]
        self.rows[target][:] = self.rows[source]

    def outputs(self, active: int) -> np.ndarray:
        """Return the raw outputs `[active, O]` of the first places, valid until the next call."""
        call = self._calls[active]
        if self._normalize:
            rows = call.normalized
            rows[:] = call.observed
            np.subtract(rows, call.mean, out=rows)
            np.multiply(rows, call.inverse_std, out=rows)
            np.maximum(rows, call.low, out=rows)
            np.minimum(rows, call.high, out=rows)
            call.first[:] = rows
        else:
            call.first[:] = call.observed
            if self._scales:
                np.multiply(call.first, self._scale, out=call.first)
        *hidden, last = call.layers
        for layer in hidden:
            for multiply, source, matrix, out in layer.products:
                multiply(source, matrix, out)
            if self._relu:
                np.maximum(layer.values, _ZERO, out=layer.values)
            else:
                np.tanh(layer.values, out=layer.values)
        for multiply, source, matrix, out in last.products:
            multiply(source, matrix, out)
        return last.values

    def actions(self, outputs: np.ndarray, noise: np.ndarray | None) -> Sequence[Any]:
        """Return an action for each row of outputs; `noise` is `[active, A]`."""
        if len(outputs) > 1:
            return self._to_actions(outputs, noise)
        return [self._to_action(outputs[0], None if noise is None else noise[0])]


class _Layer:
    """One layer of the first places: a product of all, or of each where they are few."""

    __slots__ = ("products", "values")

    def __init__(self, source: np.ndarray, matrix: np.ndarray, out: np.ndarray):
        self.values = out
        self.products: list[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]
        if len(source) > _FEW:
            self.products = [(np.matmul, source[:, None], matrix, out[:, None])]
        else:
            self.products = [(np.dot, *each) for each in zip(source, matrix, out, strict=True)]


class _Call(NamedTuple):
    """Views of the buffers for one number of active places."""

    observed: np.ndarray
    normalized: np.ndarray
    mean: np.ndarray
    inverse_std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    layers: list[_Layer]


def stackable(spec: object) -> bool:
    """Return whether a policy is an MLP whose actions can be made for several members at once."""
    if not isinstance(spec, PolicySpec) or spec.module is not None:
        return False
    if spec.convolutions or spec.virtual_batch:
        return False
    return batch_action_function(spec.head) is not None


def equals_single(spec: PolicySpec, count: int, dtype: Any = np.float64) -> bool:
    """Return whether outputs and actions of any number of places equal those of `MLPPolicy`."""
    rng = np.random.default_rng(0)
    stacked, single = StackedMLP(spec, count, dtype), MLPPolicy(spec)
    size, observed = single.parameter_count, spec.observation_size
    moments = rng.standard_normal(observed), np.abs(rng.standard_normal(observed)) + 0.1
    stacked.load_moments(*moments)
    single.load_moments(*moments)
    for active in range(1, count + 1):
        for number in range(_CHECKED_CALLS):
            vectors = rng.standard_normal((active, size)).astype(np.float32)
            vectors *= np.float32(0.5**number)
            rows = (rng.standard_normal((active, observed)) * 2.0).astype(dtype)
            noise = _drawn(spec.head, rng, active) if number % 2 else None
            for place in range(active):
                stacked.vectors[place][:] = vectors[place]
                stacked.rows[place][:] = rows[place]
            outputs = stacked.outputs(active)
            before = outputs.copy()
            actions = stacked.actions(outputs, noise)
            for place in range(active):
                single.load_vector(vectors[place])
                output = single.output(rows[place])
                if output.tobytes() != before[place].tobytes():
                    return False
                action = single.to_action(output, None if noise is None else noise[place])
                if np.asarray(action).tobytes() != np.asarray(actions[place]).tobytes():
                    return False
    return True


def _drawn(head: Head, rng: np.random.Generator, active: int) -> np.ndarray | None:
    if head.kind == "discrete":
        return None
    return rng.standard_normal((active, head.action_size), dtype=np.float32) * np.float32(0.1)


def _rows(count: int, size: int) -> np.ndarray:
    """Return `[count, size]` of zeros, each row at the beginning of a cache line."""
    padded = -(-size // _LINE) * _LINE
    return aligned_zeros(count * padded).reshape(count, padded)[:, :size]
