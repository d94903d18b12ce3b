"""The gradient of an interval for A2C: by autograd for any network, written out for the MLP.

begin ─ outputs and values of every row ─▶ targets and advantages ─ accumulate ─▶ gradient
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from drumline.algorithms.learned_network import Evaluated, LearnedNetwork
from drumline.algorithms.rollout_preparation import Prepared
from drumline.algorithms.stacked_rows import in_one_piece
from drumline.functional.loss_gradients import a2c_loss_terms
from drumline.functional.losses import a2c_loss, kl_estimates
from drumline.policies.action_gradients import action_terms
from drumline.policies.distributions import log_prob_and_entropy
from drumline.policies.mlp_gradients import MLPGradients
from drumline.policies.vector import FlatParameters

KEPT_GRAPHS = 4
"""Microbatches whose activations are kept until their targets are known, at most (memory).

With more, rows go forward twice.
"""


class A2CParts(NamedTuple):
    """What one part of an interval adds to what is logged."""

    policy_loss: float
    value_loss: float
    policy_entropy_nats: float
    approximate_kl_nats: float


class Before(NamedTuple):
    """What the targets are made of: every row, the tail `[B]` and the truncated ends `[J]`."""

    rows: Evaluated
    tail: Tensor
    final: Tensor


class A2CGradient(Protocol):
    """Sets the gradient of `at`, the live or the frozen parameters of a network."""

    def begin(self, at: FlatParameters, shard: Prepared) -> Before:
        """Evaluate a shard's rows."""
        ...

    def accumulate(
        self, targets: Tensor, advantages: Tensor, *, entropy_coefficient: float, divisor: int
    ) -> Iterator[A2CParts]:
        """Set the gradient of the rows that were begun; yields after every part."""
        ...


class AutogradA2C:
    """Any network, at any precision."""

    def __init__(self, network: LearnedNetwork, value_coefficient: float):
        self._network = network
        self._value_coefficient = value_coefficient
        self._graphs: list[Evaluated] = []

    def begin(self, at: FlatParameters, shard: Prepared) -> Before:
        """Evaluate; of a few microbatches the graphs are kept."""
        network = self._network
        self._at, self._shard, self._graphs = at, shard, []
        count = shard.rewards.numel()
        tail = network.evaluate(at, shard.observations[count:]).values
        final = network.evaluate(at, shard.final_observations).values
        if len(network.slices(count)) > KEPT_GRAPHS:
            return Before(network.evaluate(at, shard.observations[:count]), tail, final)
        self._graphs = network.each(
            at, count, lambda lane, rows: network.forward(lane, shard.observations[rows])
        )
        outputs, values = zip(*self._graphs, strict=True)
        return Before(
            Evaluated(torch.cat(outputs).detach(), torch.cat(values).detach()), tail, final
        )

    def accumulate(
        self, targets: Tensor, advantages: Tensor, *, entropy_coefficient: float, divisor: int
    ) -> Iterator[A2CParts]:
        """Add up the gradients of as many rows at once as stay in the cache."""
        network, shard = self._network, self._shard
        count = shard.rewards.numel()
        actions = shard.actions.reshape(count, *shard.actions.shape[2:])
        behavior = shard.log_probs.reshape(-1)
        starts = [rows.start for rows in network.slices(count)]
        graphs = dict(zip(starts, self._graphs, strict=False))
        self._graphs = []

        def passes(lane: FlatParameters, rows: slice) -> A2CParts:
            part = graphs.pop(rows.start, None)
            part = part or network.forward(lane, shard.observations[rows])
            log_probs, entropy = log_prob_and_entropy(
                network.spec.head, part.outputs, actions[rows]
            )
            loss = a2c_loss(
                log_probs,
                entropy,
                part.values,
                advantages.reshape(-1)[rows],
                targets.reshape(-1)[rows],
                value_coefficient=self._value_coefficient,
                entropy_coefficient=entropy_coefficient,
                divisor=divisor,
            )
            loss.loss.backward()
            distance = kl_estimates(log_probs.detach(), behavior[rows]).sum()
            return A2CParts(
                float(loss.policy_loss),
                float(loss.value_loss),
                float(loss.policy_entropy_nats),
                float(distance) / divisor,
            )

        return network.accumulate(self._at, count, passes)


class MLPA2C:
    """The MLP in float32: the same gradient to rounding, without autograd's bookkeeping."""

    def __init__(self, network: LearnedNetwork, value_coefficient: float):
        self._network = network
        self._value_coefficient = value_coefficient
        self._passes = {
            id(at): MLPGradients(network.spec, at.values.numpy(), at.gradient.numpy())
            for at in (network.live, network.frozen)
        }

    def begin(self, at: FlatParameters, shard: Prepared) -> Before:
        """Evaluate; the rows come last, so that their activations are there for the gradient."""
        passes = self._passes[id(at)]
        self._at, self._shard = at, shard
        count = shard.rewards.numel()
        observations = in_one_piece(shard.observations).numpy()
        observations = observations.reshape(len(observations), -1)
        tail = passes.forward(observations[count:])[1].copy()
        final = np.zeros(0, np.float32)
        if len(shard.final_observations):
            last = in_one_piece(shard.final_observations).numpy()
            final = passes.forward(last.reshape(len(last), -1))[1].copy()
        outputs, values = passes.forward(observations[:count])
        self._outputs, self._values = outputs.copy(), values.copy()
        rows = Evaluated(torch.from_numpy(self._outputs), torch.from_numpy(self._values))
        return Before(rows, torch.from_numpy(tail), torch.from_numpy(final))

    def accumulate(
        self, targets: Tensor, advantages: Tensor, *, entropy_coefficient: float, divisor: int
    ) -> Iterator[A2CParts]:
        """Set the gradient of all rows at once."""
        shard = self._shard
        count = shard.rewards.numel()
        actions = shard.actions.reshape(count, *shard.actions.shape[2:]).numpy()
        terms = action_terms(self._network.spec.head, self._outputs, actions)
        loss = a2c_loss_terms(
            terms.log_probs,
            shard.log_probs.reshape(-1).numpy(),
            terms.entropies,
            self._values,
            advantages.reshape(-1).numpy(),
            targets.reshape(-1).numpy(),
            value_coefficient=self._value_coefficient,
            entropy_coefficient=entropy_coefficient,
            divisor=divisor,
        )
        d_outputs = terms.d_outputs(loss.d_log_probs, loss.d_entropy)
        self._passes[id(self._at)].backward(d_outputs, loss.d_values)
        yield A2CParts(*loss[:4])
