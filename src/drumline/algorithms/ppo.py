"""Proximal policy optimisation on whole intervals: epochs of minibatches (Schulman et al. 2017).

Corrections for the one policy of lag:

- the decoupled objective clips steps around θ_k and weighs each row's whole clipped term by π_k/μ
(Hilton, Cobbe & Schulman 2022, eq. 4), as in their code by at most 100, after advantages are
standardised;

- truncated importance sampling clips around θ_k too, and multiplies GAE by min(1, π_k/μ) before
advantages are standardised;

- the ratio itself, as in the release of HTS-RL;

- the delayed update adds the displacement of an inner loop from θ_{k−1} to θ_k;

- V-trace targets;

- none: ratios against log-probabilities recomputed at θ_k.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drumline import seeding
from drumline.algorithms.gathered_gradients import (
    gradient_part,
    metrics_part,
    summed_gradient,
    summed_metrics,
)
from drumline.algorithms.learned_network import LearnedNetwork, Pause
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.loss_derivatives import Compared, derived
from drumline.algorithms.network_gradients import NetworkGradient
from drumline.algorithms.rollout_preparation import Prepared, RolloutPreparation
from drumline.algorithms.stacked_rows import Observations
from drumline.functional.losses import Loss, LossOfInterval, explained_variance, standardized
from drumline.functional.returns import gae, truncated_importance_ratios, vtrace
from drumline.functional.shards import Part, Shards
from drumline.functional.torch_steps import clip_by_global_norm_
from drumline.policies.distributions import log_probs_of
from drumline.types import Metrics, Rollout, State

Correction = Literal["decoupled", "truncated-is", "ppo-ratio", "delayed", "vtrace", "none"]

LARGEST_WEIGHT = 100.0
"""Largest π_k/μ of the decoupled objective, as in the code of Hilton, Cobbe & Schulman."""


@dataclass(frozen=True)
class PPOSettings:
    """Settings of PPO's targets and loop."""

    discount: float
    gae_lambda: float
    epochs: int
    minibatches: int
    normalize_advantages: bool
    max_gradient_norm: float
    target_kl: float
    """The epochs end before the step of a minibatch whose KL exceeds 1.5 times this; 0: never."""
    correction: Correction
    seed: int


class _Targets(NamedTuple):
    """Observations and targets of a shard's rows, and the weights of their policy terms."""

    observations: Observations
    compared: Compared
    weights: np.ndarray


class _Interval(NamedTuple):
    """An interval to go through: own shards' targets, and every shard's advantages."""

    own: list[_Targets]
    advantages: list[np.ndarray]


class _Minibatch(NamedTuple):
    """Metrics of a minibatch, and its gradient until the next one's."""

    metrics: Metrics
    gradient: Tensor


class PPO:
    """PPO as a `Learner`; learning rate and loss are functions of the interval."""

    def __init__(
        self,
        network: LearnedNetwork,
        learning: LearningState,
        preparation: RolloutPreparation,
        settings: PPOSettings,
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
        """Go through an interval's data in `epochs` × `minibatches` steps."""
        network, settings = self._network, self._settings
        shards = self._shards
        data = self._preparation.prepare(rollout, behavior, shards)
        network.frozen.load(behavior["parameters"])
        own = [self._targets(shard) for shard in data]
        parts: list[Part] = []
        for (_, compared, _), seen in zip(
            own, self._preparation.seen(rollout, shards), strict=True
        ):
            columns = (compared.advantages, compared.old_values, compared.returns)
            parts.append((*columns, *seen))
        every = shards.gather(parts)
        advantages, values, returns, *seen = (list(column) for column in zip(*every, strict=True))
        targets = _Interval(own, advantages)
        # The steps change a copy, so that a loss that is not finite leaves the live parameters
        # alone.
        start, inner = network.live.values.clone(), network.frozen.values.clone()
        if settings.correction == "delayed":
            network.live.values.copy_(inner)
        before = self._learning.saved()
        try:
            raw = self._preparation.raw(rollout, behavior)
            metrics = self._epochs(rollout.interval, targets, learn=not raw)
        except BaseException:
            network.live.values.copy_(start)
            self._learning.restore(before)
            raise
        if settings.correction == "delayed":
            network.live.values.sub_(inner).add_(start)
        self._preparation.fold(list(zip(*seen, strict=True)))
        metrics["explained_variance"] = explained_variance(
            _rows_by_time(values, rollout), _rows_by_time(returns, rollout)
        )
        metrics["learning_rate"] = self._learning_rate(rollout.interval)
        metrics["gradient_steps"] = float(self._learning.optimizer.steps)
        return metrics

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
    def _targets(self, data: Prepared) -> _Targets:
        """Return actions and targets of a shard's rows, in the order (t, environment)."""
        network, settings = self._network, self._settings
        steps, environments = data.rewards.shape
        count = steps * environments
        at, log_probs, values = network.frozen, data.log_probs, data.values
        actions = data.actions.reshape(count, *data.actions.shape[2:])
        current = log_probs
        if settings.correction in ("decoupled", "truncated-is", "vtrace", "none"):
            at = network.live
            now = network.evaluate(at, data.observations[:count])
            current = log_probs_of(network.spec.head, now.outputs, actions).reshape(values.shape)
            values = now.values.reshape(values.shape)
        tail = network.evaluate(at, data.observations[count:]).values
        final = network.evaluate(at, data.final_observations).values
        following = data.next_values(values, tail, final)
        inputs = (data.rewards, data.discounts, values, following, data.ended)
        if settings.correction == "vtrace":
            targets, advantages = vtrace(
                *inputs, current, data.log_probs, lambda_=settings.gae_lambda
            )
        else:
            advantages = gae(*inputs, lambda_=settings.gae_lambda)
            targets = advantages + values
        weights = torch.ones(()).expand(values.shape)
        if settings.correction == "decoupled":
            weights = truncated_importance_ratios(current, data.log_probs, bar=LARGEST_WEIGHT)
        if settings.correction == "truncated-is":
            advantages = advantages * truncated_importance_ratios(current, data.log_probs, bar=1.0)
        if settings.correction in ("decoupled", "truncated-is", "none"):
            log_probs = current
        columns = (log_probs, values, advantages, targets)
        compared = Compared(actions.numpy(), *(column.reshape(-1).numpy() for column in columns))
        return _Targets(data.observations[:count], compared, weights.reshape(-1).numpy())

    def _epochs(self, interval: int, targets: _Interval, *, learn: bool) -> Metrics:
        """Return the means of the minibatches' metrics; without `learn`, of one pass."""
        settings = self._settings
        loss, rate = self._loss(interval), self._learning_rate(interval)
        totals: Metrics = {}
        minibatches = 0
        for epoch in range(settings.epochs if learn else 1):
            order = self._order(interval, epoch, [len(rows) for rows in targets.advantages])
            for minibatch in range(settings.minibatches):
                chosen = [_part(shard, minibatch, settings.minibatches) for shard in order]
                where = f"interval {interval}, epoch {epoch}, minibatch {minibatch}"
                found = self._minibatch(targets, chosen, loss, where)
                for name, value in found.metrics.items():
                    totals[name] = totals.get(name, 0.0) + value
                minibatches += 1
                if self._too_far(found.metrics):
                    return {name: total / minibatches for name, total in totals.items()}
                if learn:
                    values = self._network.live.values
                    self._learning.optimizer.step(values, found.gradient, rate)
        return {name: total / minibatches for name, total in totals.items()}

    def _order(self, interval: int, epoch: int, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return each shard's rows in the order of this epoch, shuffled by a stream of its own."""
        seed = self._settings.seed
        streams = [
            seeding.generator(seed, "shuffle", interval, epoch, shard)
            for shard in range(self._shards.count)
        ]
        return [rng.permutation(size) for rng, size in zip(streams, sizes, strict=True)]

    def _minibatch(
        self, targets: _Interval, chosen: list[np.ndarray], loss: Loss, where: str
    ) -> _Minibatch:
        """Return metrics and clipped gradient of each shard's rows `chosen`, added by shard."""
        network, settings, shards = self._network, self._settings, self._shards
        picked = [a.take(rows) for a, rows in zip(targets.advantages, chosen, strict=True)]
        advantages = picked[0] if len(picked) == 1 else np.concatenate(picked)
        if settings.normalize_advantages and len(advantages) > 1:  # a single row's would be 0
            advantages = standardized(advantages)
        size = len(chosen[0])
        own: list[Part] = []
        names: list[str] = []
        for shard, (observations, compared, weights) in zip(shards.own, targets.own, strict=True):
            rows = chosen[shard]
            mine = advantages[shard * size : (shard + 1) * size]
            if settings.correction == "decoupled":
                # A weight above 0 goes through min and clip: it weighs the whole clipped term.
                mine = mine * weights.take(rows)
            derive = partial(
                derived, loss, network.spec.head, compared.take(rows, mine), len(advantages)
            )
            metrics: list[Metrics] = []
            for part in self._gradient.accumulate(network.live, observations, rows, derive):
                metrics.append(part)
                self._pause()
            names = list(metrics[0])
            own.append((gradient_part(network.live, shards), metrics_part(metrics)))
        gradients, numbers = zip(*shards.gather(own), strict=True)
        total = summed_gradient(network.live, gradients)
        norm = clip_by_global_norm_(total, settings.max_gradient_norm)
        self._learning.refuse_unfinite(norm, where)
        return _Minibatch({**summed_metrics(names, numbers), "gradient_norm": norm}, total)

    def _too_far(self, minibatch: Metrics) -> bool:
        """Whether the policy has moved so far that the update ends before this minibatch's step.

        As in Stable-Baselines3, the KL is that before the step.
        """
        limit = 1.5 * self._settings.target_kl
        return bool(limit) and minibatch["approximate_kl_nats"] > limit


def _part(rows: np.ndarray, number: int, parts: int) -> np.ndarray:
    size = len(rows) // parts
    return rows[number * size : (number + 1) * size]


def _rows_by_time(parts: list[np.ndarray], rollout: Rollout) -> np.ndarray:
    """Return the shards' rows in the order (t, environment)."""
    steps = len(rollout.rewards)
    return np.concatenate([part.reshape(steps, -1) for part in parts], axis=1).ravel()
