"""The gradient of a network's parameters, from derivatives by its outputs and values.

Derivatives come from a loss in NumPy. For any torch network autograd runs through the network
alone. For the MLP in float32 the backward pass is written out.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from drumline.algorithms.learned_network import Evaluated, LearnedNetwork
from drumline.algorithms.recorded_passes import (
    MOST_ROWS,
    MOST_SIZES,
    Passed,
    RecordedPass,
    passed,
)
from drumline.algorithms.stacked_rows import Observations, in_one_piece
from drumline.policies.mlp_gradients import MLPGradients
from drumline.policies.network_spec import is_own
from drumline.policies.vector import FlatParameters
from drumline.types import Metrics

KEPT_GRAPHS = 4
"""Microbatches whose activations are kept until their targets are known, at most (memory).

With more, rows go forward twice.
"""


class Derived(NamedTuple):
    """A loss's derivatives by some rows' outputs `[N, O]` and values `[N]`, float32."""

    d_outputs: np.ndarray
    d_values: np.ndarray
    metrics: Metrics
    """Contribution of these rows to the logged metrics."""


Derive = Callable[[np.ndarray, np.ndarray, slice], Derived]
"""(outputs, values, part) → derivatives; `part` says which of the rows in hand these are."""


class Held(NamedTuple):
    """Rows after the forward pass, before their targets are known."""

    rows: Evaluated
    accumulate: Callable[[Derive], Iterator[Metrics]]
    """Sets the gradient from these rows, once; yields after each microbatch."""


@runtime_checkable  # the tests check signatures at run time
class NetworkGradient(Protocol):
    """Sets the gradient of `at`, the live or the frozen parameters of a network."""

    def evaluate(self, at: FlatParameters, observations: Observations) -> Evaluated:
        """Return outputs and values of rows, without gradients."""
        ...

    def hold(self, at: FlatParameters, observations: Observations) -> Held:
        """Evaluate rows whose gradient is set next; no other rows may go forward in between."""
        ...

    def accumulate(
        self, at: FlatParameters, observations: Observations, rows: np.ndarray, derive: Derive
    ) -> Iterator[Metrics]:
        """Set the gradient from the rows with these indices; yields after each microbatch."""
        ...


class AutogradGradient:
    """Any network, at any precision; on a device, passes of one size after another are recorded."""

    def __init__(self, network: LearnedNetwork):
        self._network = network
        # A network of the user's may do what no recording repeats.
        self._records = network.device is not None and not is_own(network.spec.network)
        self._recorded: dict[tuple[FlatParameters, int], RecordedPass] = {}

    def evaluate(self, at: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate a microbatch at a time."""
        return self._network.evaluate(at, observations)

    def hold(self, at: FlatParameters, observations: Observations) -> Held:
        """Evaluate; of a few microbatches the graphs are kept."""
        network, count = self._network, len(observations)
        parts = network.slices(count)

        def forward(lane: FlatParameters, part: slice) -> Passed:
            # What was recorded keeps one batch at a time.
            return self._forward(lane, observations[part], recorded=len(parts) == 1)

        if len(parts) > KEPT_GRAPHS:
            again = partial(self._backward, at, count, forward)
            return Held(network.evaluate(at, observations), again)
        graphs = network.each(at, count, forward)
        kept = {part.start: graph for part, graph in zip(parts, graphs, strict=True)}
        outputs, values = (
            torch.from_numpy(np.concatenate([getattr(one, name) for one in kept.values()]))
            for name in ("outputs", "values")
        )
        return Held(
            Evaluated(outputs, values),
            partial(self._backward, at, count, lambda lane, part: kept.pop(part.start)),
        )

    def accumulate(
        self, at: FlatParameters, observations: Observations, rows: np.ndarray, derive: Derive
    ) -> Iterator[Metrics]:
        """Add up the gradients of as many rows at once as stay in the cache."""
        picks = torch.from_numpy(rows).to(self._network.live.values.device)

        def forward(lane: FlatParameters, part: slice) -> Passed:
            return self._forward(lane, observations[picks[part]], recorded=True)

        return self._backward(at, len(rows), forward, derive)

    def _forward(self, lane: FlatParameters, rows: Observations, *, recorded: bool) -> Passed:
        network = self._network
        if recorded and self._records and len(rows) <= MOST_ROWS:
            whole, key = in_one_piece(rows), (lane, len(rows))
            if key not in self._recorded and len(self._recorded) < MOST_SIZES:
                self._recorded[key] = RecordedPass(network.forward, lane, whole)
            if key in self._recorded:
                return self._recorded[key](whole)
            rows = whole
        return passed(network.forward(lane, rows))

    def _backward(
        self,
        at: FlatParameters,
        count: int,
        forward: Callable[[FlatParameters, slice], Passed],
        derive: Derive,
    ) -> Iterator[Metrics]:
        def passes(lane: FlatParameters, part: slice) -> Metrics:
            rows = forward(lane, part)
            with np.errstate(over="ignore", invalid="ignore"):  # shows in the gradient
                derived = derive(rows.outputs, rows.values, part)
            rows.backward(derived.d_outputs, derived.d_values)
            return derived.metrics

        return self._network.accumulate(at, count, passes)


class WrittenOutGradient:
    """The MLP in float32: the same gradient to rounding, without autograd's bookkeeping."""

    def __init__(self, network: LearnedNetwork):
        self._network = network
        self._passes = {
            at: MLPGradients(network.spec, at.values.numpy(), at.gradient.numpy())
            for at in (network.live, network.frozen)
        }

    def evaluate(self, at: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate all rows at once."""
        if not len(observations):
            return self._network.evaluate(at, observations)
        outputs, values = self._passes[at].forward(_matrix(observations))
        return Evaluated(torch.from_numpy(outputs.copy()), torch.from_numpy(values.copy()))

    def hold(self, at: FlatParameters, observations: Observations) -> Held:
        """Evaluate all rows at once; their activations stay until another forward pass."""
        rows = self.evaluate(at, observations)

        def backward(derive: Derive) -> Iterator[Metrics]:
            whole = slice(0, len(observations))
            derived = derive(rows.outputs.numpy(), rows.values.numpy(), whole)
            self._passes[at].backward(derived.d_outputs, derived.d_values)
            yield derived.metrics

        return Held(rows, backward)

    def accumulate(
        self, at: FlatParameters, observations: Observations, rows: np.ndarray, derive: Derive
    ) -> Iterator[Metrics]:
        """Set the gradient from the first microbatch, and add those of the others."""
        passes, gradient = self._passes[at], at.gradient.numpy()
        matrix = _matrix(observations)
        total: np.ndarray | None = None
        for part in self._network.slices(len(rows)):
            picked = rows[part]
            derived = derive(*passes.forward(matrix.take(picked, axis=0)), part)
            passes.backward(derived.d_outputs, derived.d_values)
            if len(picked) < len(rows):
                total = gradient.copy() if total is None else total + gradient
            yield derived.metrics
        if total is not None:
            gradient[:] = total


def _matrix(observations: Observations) -> np.ndarray:
    rows = in_one_piece(observations).numpy()
    return rows.reshape(len(rows), -1)
