"""Advantage actor-critic on whole intervals: one gradient, one step (Mnih et al. 2016).

The default correction is HTS-RL's delayed gradient: the gradient is taken at the parameters that
collected the data, where it is exactly on-policy, and the step starts at the newest ones.

    θ_{k+1} = θ_k + η ∇J(θ_{k−1}; D_{k−1})
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from drumline.algorithms.gathered_gradients import (
    gradient_part,
    metrics_part,
    summed_gradient,
    summed_metrics,
)
from drumline.algorithms.learned_network import Evaluated, LearnedNetwork, Pause
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.loss_derivatives import Compared, derived
from drumline.algorithms.network_gradients import NetworkGradient
from drumline.algorithms.rollout_preparation import Prepared, RolloutPreparation
from drumline.functional.losses import Baseline, LossOfInterval, explained_variance
from drumline.functional.returns import (
    gae,
    n_step_returns,
    returns_to_go,
    truncated_importance_ratios,
    vtrace,
)
from drumline.functional.shards import Part, Shards
from drumline.functional.torch_steps import clip_by_global_norm_
from drumline.policies.distributions import log_probs_of
from drumline.types import Metrics, Rollout, State

Correction = Literal["delayed", "none", "truncated-is", "vtrace"]


@dataclass(frozen=True)
class A2CSettings:
    """Settings of A2C's targets and step."""

    discount: float
    unroll: int
    """Steps of an n-step return; 0: GAE over the whole interval."""
    gae_lambda: float
    max_gradient_norm: float
    correction: Correction
    ratio_bound: float = 1.0
    """ρ̄ and c̄ of truncated importance sampling and V-trace."""
    baseline: Baseline = "critic"

    def __post_init__(self) -> None:
        if self.baseline == "none" and self.correction == "vtrace":
            raise ValueError("V-trace corrects values, and without a baseline there are none")


class A2C:
    """A2C as a `Learner`; learning rate and loss are functions of the interval."""

    def __init__(
        self,
        network: LearnedNetwork,
        learning: LearningState,
        preparation: RolloutPreparation,
        settings: A2CSettings,
        *,
        learning_rate: Callable[[int], float],
        loss: LossOfInterval,
        gradient: NetworkGradient,
        shards: Shards | None = None,
        pause: Pause = lambda: None,
    ):
        self._network = network
        self._learning = learning
        self._preparation = preparation
        self._settings = settings
        self._learning_rate = learning_rate
        self._loss = loss
        self._gradient = gradient
        self._shards = shards or Shards.alone()
        self._pause = pause

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Take one step on all of an interval's data."""
        network, settings = self._network, self._settings
        shards = self._shards
        data = self._preparation.prepare(rollout, behavior, shards)
        if settings.correction == "delayed":
            network.frozen.load(behavior["parameters"])
            at = network.frozen
        else:
            at = network.live
        rows = rollout.rewards.size
        loss = self._loss(rollout.interval)
        own: list[Part] = []
        names: list[str] = []
        for shard, seen in zip(data, self._preparation.seen(rollout, shards), strict=True):
            count = shard.rewards.numel()
            outside = None
            if settings.baseline == "critic":
                tail = self._gradient.evaluate(at, shard.observations[count:]).values
                outside = tail, self._gradient.evaluate(at, shard.final_observations).values
            held = self._gradient.hold(at, shard.observations[:count])
            values, targets, advantages = self._targets(shard, held.rows, outside)
            compared = _compared(shard, targets, advantages)
            derive = partial(derived, loss, network.spec.head, compared, rows)
            metrics: list[Metrics] = []
            for part in held.accumulate(derive):
                metrics.append(part)
                self._pause()
            names = list(metrics[0])
            columns = (values.reshape(-1).numpy(), targets.reshape(-1).numpy())
            own.append((gradient_part(at, shards), metrics_part(metrics), *columns, *seen))
        every = shards.gather(own)
        gradients, numbers, values, targets, *seen = zip(*every, strict=True)
        critic: Metrics = {}
        if settings.baseline == "critic":
            columns = (np.concatenate(values), np.concatenate(targets))
            critic["explained_variance"] = explained_variance(*columns)
        gradient = summed_gradient(at, gradients)
        norm = clip_by_global_norm_(gradient, settings.max_gradient_norm)
        self._learning.refuse_unfinite(norm, f"interval {rollout.interval}")
        rate = self._learning_rate(rollout.interval)
        if not self._preparation.raw(rollout, behavior):
            self._learning.optimizer.step(network.live.values, gradient, rate)
        self._preparation.fold(list(zip(*seen, strict=True)))
        return {
            **summed_metrics(names, numbers),
            **critic,
            "gradient_norm": norm,
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
        """Load a state."""
        self._learning.load(state)
        self._preparation.load(state)

    @torch.no_grad()
    def _targets(
        self, shard: Prepared, rows: Evaluated, outside: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return values, value targets and advantages `[T, B]`.

        `outside`: values at the interval's end and at time limits; None: there is no critic.
        """
        settings = self._settings
        values = rows.values.reshape(shard.rewards.shape)
        following = (
            torch.zeros_like(values) if outside is None else shard.next_values(values, *outside)
        )
        inputs = (shard.rewards, shard.discounts)
        log_probs = shard.log_probs
        if settings.correction in ("vtrace", "truncated-is"):
            actions = shard.actions.reshape(values.numel(), *shard.actions.shape[2:])
            head = self._network.spec.head
            log_probs = log_probs_of(head, rows.outputs, actions).reshape(values.shape)
        if settings.correction == "vtrace":
            targets, advantages = vtrace(
                *inputs,
                values,
                following,
                shard.ended,
                log_probs,
                shard.log_probs,
                lambda_=settings.gae_lambda,
                rho_bar=settings.ratio_bound,
                c_bar=settings.ratio_bound,
            )
            return values, targets, advantages
        if outside is None:
            targets = advantages = returns_to_go(*inputs, shard.ended)
        elif settings.unroll:
            targets = n_step_returns(*inputs, following, shard.ended, unroll=settings.unroll)
            advantages = targets - values
        else:
            advantages = gae(*inputs, values, following, shard.ended, lambda_=settings.gae_lambda)
            targets = advantages + values
        if settings.correction == "truncated-is":
            advantages = advantages * truncated_importance_ratios(
                log_probs, shard.log_probs, bar=settings.ratio_bound
            )
        return values, targets, advantages


def _compared(shard: Prepared, targets: Tensor, advantages: Tensor) -> Compared:
    return Compared(
        shard.actions.reshape(-1, *shard.actions.shape[2:]).numpy(),
        *(
            column.reshape(-1).numpy()
            for column in (shard.log_probs, shard.values, advantages, targets)
        ),
    )
