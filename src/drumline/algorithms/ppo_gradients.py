"""The gradient of one PPO minibatch: by autograd for any network, written out for the MLP."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch

from drumline.algorithms.learned_network import LearnedNetwork
from drumline.algorithms.stacked_rows import Observations, in_one_piece
from drumline.functional.loss_gradients import ppo_loss_terms
from drumline.functional.losses import ppo_loss
from drumline.policies.action_gradients import action_terms
from drumline.policies.distributions import log_prob_and_entropy
from drumline.policies.mlp_gradients import MLPGradients
from drumline.policies.vector import FlatParameters


class PPOBatch(NamedTuple):
    """All rows of an interval, in the order (t, environment)."""

    observations: Observations
    actions: np.ndarray
    log_probs: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    advantages: np.ndarray


class PPOParts(NamedTuple):
    """What one part of a minibatch adds to what is logged."""

    policy_loss: float
    value_loss: float
    policy_entropy_nats: float
    approximate_kl_nats: float
    clip_fraction: float


@dataclass(frozen=True)
class PPOWeights:
    """What of the loss is fixed for a run."""

    clip_values: bool
    value_coefficient: float


class PPOGradient(Protocol):
    """Sets `network.live.gradient` to that of some rows, with their advantages as given."""

    def __call__(
        self,
        batch: PPOBatch,
        rows: np.ndarray,
        advantages: np.ndarray,
        *,
        clip: float,
        entropy_coefficient: float,
        divisor: int,
    ) -> Iterator[PPOParts]:
        """Yield after every part: whoever has to look after others can do so in between."""
        ...


class AutogradPPO:
    """Any network, at any precision."""

    def __init__(self, network: LearnedNetwork, weights: PPOWeights):
        self._network = network
        self._weights = weights

    def __call__(
        self,
        batch: PPOBatch,
        rows: np.ndarray,
        advantages: np.ndarray,
        *,
        clip: float,
        entropy_coefficient: float,
        divisor: int,
    ) -> Iterator[PPOParts]:
        """Add up the gradients of as many rows at once as stay in the cache."""
        network, weights = self._network, self._weights
        actions, behavior, before, targets = map(torch.from_numpy, batch[1:5])
        picks, weighed = torch.from_numpy(rows), torch.from_numpy(advantages)

        def passes(lane: FlatParameters, part: slice) -> PPOParts:
            picked = picks[part]
            evaluated = network.forward(lane, batch.observations[picked])
            log_probs, entropy = log_prob_and_entropy(
                network.spec.head, evaluated.outputs, actions[picked]
            )
            loss = ppo_loss(
                log_probs,
                behavior[picked],
                entropy,
                evaluated.values,
                before[picked],
                weighed[part],
                targets[picked],
                clip=clip,
                value_clip=clip if weights.clip_values else None,
                value_coefficient=weights.value_coefficient,
                entropy_coefficient=entropy_coefficient,
                divisor=divisor,
            )
            loss.loss.backward()
            return PPOParts(*(float(number) for number in loss[1:]))

        return network.accumulate(network.live, len(rows), passes)


class MLPPPO:
    """The MLP in float32: the same gradient to rounding, in a fifth of the time."""

    def __init__(self, network: LearnedNetwork, weights: PPOWeights):
        live = network.live
        self._network = network
        self._weights = weights
        self._gradient = live.gradient.numpy()
        self._passes = MLPGradients(network.spec, live.values.numpy(), self._gradient)

    def __call__(
        self,
        batch: PPOBatch,
        rows: np.ndarray,
        advantages: np.ndarray,
        *,
        clip: float,
        entropy_coefficient: float,
        divisor: int,
    ) -> Iterator[PPOParts]:
        """Set the gradient from the first rows, and add those of the others."""
        weights, head = self._weights, self._network.spec.head
        observations = in_one_piece(batch.observations).numpy()
        observations = observations.reshape(len(observations), -1)
        total: np.ndarray | None = None
        for part in self._network.slices(len(rows)):
            picked = rows[part]
            outputs, now = self._passes.forward(observations.take(picked, axis=0))
            terms = action_terms(head, outputs, batch.actions.take(picked, axis=0))
            loss = ppo_loss_terms(
                terms.log_probs,
                batch.log_probs.take(picked),
                terms.entropies,
                now,
                batch.values.take(picked),
                advantages[part],
                batch.targets.take(picked),
                clip=clip,
                value_clip=clip if weights.clip_values else None,
                value_coefficient=weights.value_coefficient,
                entropy_coefficient=entropy_coefficient,
                divisor=divisor,
            )
            self._passes.backward(terms.d_outputs(loss.d_log_probs, loss.d_entropy), loss.d_values)
            if len(picked) < len(rows):
                total = self._gradient.copy() if total is None else total + self._gradient
            yield PPOParts(*loss[:5])
        if total is not None:
            self._gradient[:] = total
