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
from drumline.algorithms.stacked_rows import Observations, in_one_piece
from drumline.functional.torch_devices import host_array
from drumline.policies.mlp_gradients import MLPGradients
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
    """Any network, at any precision."""

    def __init__(self, network: LearnedNetwork):
        self._network = network

    def evaluate(self, at: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate a microbatch at a time."""
        return self._network.evaluate(at, observations)

    def hold(self, at: FlatParameters, observations: Observations) -> Held:
        """Evaluate; of a few microbatches the graphs are kept."""
        network, count = self._network, len(observations)

        def forward(lane: FlatParameters, part: slice) -> Evaluated:
            return network.forward(lane, observations[part])

        parts = network.slices(count)
        if len(parts) > KEPT_GRAPHS:
            again = partial(self._backward, at, count, forward)
            return Held(network.evaluate(at, observations), again)
        graphs = network.each(at, count, forward)
        kept = {part.start: graph for part, graph in zip(parts, graphs, strict=True)}
        outputs, values = zip(*kept.values(), strict=True)
        rows = Evaluated(torch.cat(outputs).detach().cpu(), torch.cat(values).detach().cpu())
        return Held(
            rows, partial(self._backward, at, count, lambda lane, part: kept.pop(part.start))
        )

    def accumulate(
        self, at: FlatParameters, observations: Observations, rows: np.ndarray, derive: Derive
    ) -> Iterator[Metrics]:
        """Add up the gradients of as many rows at once as stay in the cache."""
        picks = torch.from_numpy(rows).to(self._network.live.values.device)

        def forward(lane: FlatParameters, part: slice) -> Evaluated:
            return self._network.forward(lane, observations[picks[part]])

        return self._backward(at, len(rows), forward, derive)

    def _backward(
        self,
        at: FlatParameters,
        count: int,
        forward: Callable[[FlatParameters, slice], Evaluated],
        derive: Derive,
    ) -> Iterator[Metrics]:
        def passes(lane: FlatParameters, part: slice) -> Metrics:
            evaluated = forward(lane, part)
            outputs, values = map(host_array, evaluated)
            with np.errstate(over="ignore", invalid="ignore"):  # shows in the gradient
                derived = derive(outputs, values, part)
            downwards = (torch.from_numpy(part).to(evaluated[0].device) for part in derived[:2])
            pairs = list(zip(evaluated, downwards, strict=True))
            # A user's network may give constant values, which have no graph.
            attached = [pair for pair in pairs if pair[0].requires_grad] or pairs
            torch.autograd.backward([pair[0] for pair in attached], [pair[1] for pair in attached])
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
