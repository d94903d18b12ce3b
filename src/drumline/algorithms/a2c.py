"""Advantage actor-critic on whole intervals: one gradient, one step (Mnih et al. 2016).

The default correction is HTS-RL's delayed gradient: the gradient is taken at the parameters that
collected the data, where it is exactly on-policy, and the step is made from the newest ones.

    θ_{k+1} = θ_k + η ∇J(θ_{k−1}; D_{k−1})
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from drumline.algorithms.learned_network import Evaluated, LearnedNetwork, Pause
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.rollout_preparation import Prepared, RolloutPreparation
from drumline.functional.losses import Loss, a2c_loss, explained_variance
from drumline.functional.returns import gae, n_step_returns, values_after, vtrace
from drumline.functional.torch_steps import clip_by_global_norm
from drumline.policies.distributions import log_prob_and_entropy
from drumline.policies.vector import FlatParameters
from drumline.types import Metrics, Rollout, State

Correction = Literal["delayed", "none", "truncated-is", "vtrace"]


@dataclass(frozen=True)
class A2CSettings:
    """What the loss and the step take."""

    discount: float
    unroll: int
    """Steps of an n-step return; 0: GAE over the whole interval."""
    gae_lambda: float
    value_coefficient: float
    entropy_coefficient: float
    max_gradient_norm: float
    correction: Correction
    ratio_bound: float = 1.0
    """ρ̄ and c̄ of truncated importance sampling and V-trace."""


class A2C:
    """A `Learner`; `learning_rate` is a function of the interval."""

    def __init__(
        self,
        network: LearnedNetwork,
        learning: LearningState,
        preparation: RolloutPreparation,
        settings: A2CSettings,
        *,
        learning_rate: Callable[[int], float],
        shards: int = 1,
        pause: Pause = lambda: None,
    ):
        self._network = network
        self._learning = learning
        self._preparation = preparation
        self._settings = settings
        self._learning_rate = learning_rate
        self._shards = shards
        self._pause = pause

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Take one step on all of an interval's data."""
        network, settings = self._network, self._settings
        data = self._preparation.prepare(rollout, behavior)
        if settings.correction == "delayed":
            network.frozen.load(behavior["parameters"])
            at = network.frozen
        else:
            at = network.live
        steps, environments = data.rewards.shape
        rows = steps * environments
        bounds = [environments * s // self._shards for s in range(self._shards + 1)]
        gradient = torch.zeros_like(network.live.values)
        sums: list[Loss] = []
        spread: list[tuple[Tensor, Tensor]] = []
        for first, last in pairwise(bounds):
            at.gradient.zero_()
            shard = _environments(data, first, last)
            values, targets, losses = self._accumulate(at, shard, rows)
            sums += losses
            spread.append((values, targets))
            gradient += at.gradient
            self._pause()
        self._learning.refuse_unfinite(gradient, f"interval {rollout.interval}")
        norm = clip_by_global_norm(gradient, settings.max_gradient_norm)
        rate = self._learning_rate(rollout.interval)
        self._learning.optimizer.step(network.live.values, gradient, rate)
        self._preparation.fold(rollout)
        values, targets = (torch.cat([pair[k] for pair in spread]) for k in (0, 1))
        return {
            "policy_loss": _mean(sums, "policy", rows),
            "value_loss": _mean(sums, "value", rows),
            "policy_entropy_nats": _mean(sums, "entropy", rows),
            "approximate_kl_nats": _mean(sums, "kl", rows),
            "explained_variance": explained_variance(values, targets),
            "gradient_norm": float(norm),
            "learning_rate": rate,
            "gradient_steps": float(self._learning.optimizer.steps),
        }

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the live parameters and the observation moments."""
        return {**self._learning.published(), **self._preparation.published()}

    def state(self) -> State:
        """Return parameters, optimiser moments and running statistics."""
        return self._learning.state(self._preparation.state())

    def load(self, state: State) -> None:
        """Take over a state."""
        self._learning.load(state)
        self._preparation.load(state)

    def _accumulate(
        self, at: FlatParameters, shard: Prepared, rows: int
    ) -> tuple[Tensor, Tensor, list[Loss]]:
        """Add a shard's gradient to `at.gradient`; returns its values, targets and loss sums."""
        network, settings = self._network, self._settings
        steps, environments = shard.rewards.shape
        count = steps * environments
        tail = network.evaluate(at, shard.observations[count:]).values
        final = network.evaluate(at, shard.final_observations).values
        slices = list(network.slices(count))
        parts: list[Evaluated] = []
        if len(slices) > 1:
            # Targets need every value first, and all activations at once would not stay in cache.
            before = network.evaluate(at, shard.observations[:count])
        else:
            parts = [network.forward(at, shard.observations[:count])]
            before = Evaluated(parts[0].outputs.detach(), parts[0].values.detach())
        actions = shard.actions.reshape(count, *shard.actions.shape[2:])
        values = before.values.reshape(steps, environments)
        following = values_after(values, tail, final, shard.final_steps, shard.final_environments)
        targets, advantages = self._targets(shard, before.outputs, actions, values, following)
        losses: list[Loss] = []
        behavior = shard.log_probs.reshape(-1)
        for number, chosen in enumerate(slices):
            part = parts[number] if parts else network.forward(at, shard.observations[chosen])
            log_probs, entropy = log_prob_and_entropy(
                network.spec.head, part.outputs, actions[chosen]
            )
            loss = a2c_loss(
                log_probs,
                advantages.reshape(-1)[chosen],
                part.values,
                targets.reshape(-1)[chosen],
                entropy,
                behavior[chosen],
                value_coefficient=settings.value_coefficient,
                entropy_coefficient=settings.entropy_coefficient,
                rows=rows,
            )
            loss.total.backward()
            losses.append(loss)
            self._pause()
        return values.reshape(-1), targets.reshape(-1), losses

    @torch.no_grad()
    def _targets(
        self, shard: Prepared, outputs: Tensor, actions: Tensor, values: Tensor, following: Tensor
    ) -> tuple[Tensor, Tensor]:
        settings = self._settings
        inputs = (shard.rewards, shard.discounts, shard.continues)
        ratios = torch.ones_like(values)
        if settings.correction in ("vtrace", "truncated-is"):
            log_probs, _ = log_prob_and_entropy(self._network.spec.head, outputs, actions)
            ratios = (log_probs.reshape(values.shape) - shard.log_probs).exp()
            if settings.correction == "vtrace":
                bound = settings.ratio_bound
                return vtrace(ratios, *inputs, values, following, rho_bar=bound, c_bar=bound)
        if settings.unroll:
            targets = n_step_returns(*inputs, following, unroll=settings.unroll)
            advantages = targets - values
        else:
            advantages = gae(*inputs, values, following, lambda_=settings.gae_lambda)
            targets = advantages + values
        return targets, advantages * ratios.clamp(max=settings.ratio_bound)


def _environments(data: Prepared, first: int, last: int) -> Prepared:
    """Return the part of an interval that belongs to environments `first … last − 1`."""
    steps, environments = data.rewards.shape
    if (first, last) == (0, environments):
        return data
    chosen = slice(first, last)
    grid = data.observations.reshape(steps + 1, environments, *data.observations.shape[1:])
    mine = (data.final_environments >= first) & (data.final_environments < last)
    return Prepared(
        observations=grid[:, chosen].reshape(-1, *grid.shape[2:]),
        final_observations=data.final_observations[mine],
        final_steps=data.final_steps[mine],
        final_environments=data.final_environments[mine] - first,
        **{
            name: getattr(data, name)[:, chosen]
            for name in ("actions", "rewards", "discounts", "continues", "log_probs", "values")
        },
    )


def _mean(losses: list[Loss], name: str, rows: int) -> float:
    return sum(float(getattr(loss, name)) for loss in losses) / rows
