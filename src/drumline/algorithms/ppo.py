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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drumline import seeding
from drumline.algorithms.learned_network import LearnedNetwork, Pause
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.loss_derivatives import Compared, derived
from drumline.algorithms.network_gradients import NetworkGradient
from drumline.algorithms.rollout_preparation import Prepared, RolloutPreparation
from drumline.algorithms.stacked_rows import Observations
from drumline.functional.losses import Loss, LossOfInterval, explained_variance, standardized
from drumline.functional.returns import gae, truncated_importance_ratios, vtrace
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
    """Targets of the rows of an interval, and the weights of their policy terms."""

    compared: Compared
    weights: np.ndarray


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
        shards: int = 1,
        pause: Pause = lambda: None,
    ):
        self._network = network
        self._learning = learning
        self._preparation = preparation
        self._settings = settings
        self._learning_rate = learning_rate
        self._loss = loss
        self._gradient = gradient
        self._shards = shards
        self._pause = pause

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Go through an interval's data in `epochs` × `minibatches` steps."""
        network, settings = self._network, self._settings
        data = self._preparation.prepare(rollout, behavior)
        network.frozen.load(behavior["parameters"])
        targets = self._targets(data)
        compared = targets.compared
        # The steps change a copy, so that a loss that is not finite leaves the live parameters
        # alone.
        start, inner = network.live.values.clone(), network.frozen.values.clone()
        if settings.correction == "delayed":
            network.live.values.copy_(inner)
        before = self._learning.saved()
        try:
            raw = self._preparation.raw(rollout, behavior)
            metrics = self._epochs(rollout.interval, data, targets, learn=not raw)
        except BaseException:
            network.live.values.copy_(start)
            self._learning.restore(before)
            raise
        if settings.correction == "delayed":
            network.live.values.sub_(inner).add_(start)
        self._preparation.fold(rollout)
        metrics["explained_variance"] = explained_variance(compared.old_values, compared.returns)
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
        """Return actions and targets of all rows, in the order (t, environment)."""
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
        return _Targets(compared, weights.reshape(-1).numpy())

    def _epochs(self, interval: int, data: Prepared, targets: _Targets, *, learn: bool) -> Metrics:
        """Return the means of the minibatches' metrics; without `learn`, of one pass."""
        settings, environments = self._settings, data.rewards.shape[1]
        observations = data.observations[: data.rewards.numel()]
        loss, rate = self._loss(interval), self._learning_rate(interval)
        totals: Metrics = {}
        minibatches = 0
        for epoch in range(settings.epochs if learn else 1):
            order = self._order(interval, epoch, len(data.rewards), environments)
            for number in range(settings.minibatches):
                chosen = [_part(shard, number, settings.minibatches) for shard in order]
                where = f"interval {interval}, epoch {epoch}, minibatch {number}"
                found = self._minibatch(observations, targets, chosen, loss, where)
                for name, number in found.metrics.items():
                    totals[name] = totals.get(name, 0.0) + number
                minibatches += 1
                if self._too_far(found.metrics):
                    return {name: total / minibatches for name, total in totals.items()}
                if learn:
                    values = self._network.live.values
                    self._learning.optimizer.step(values, found.gradient, rate)
        return {name: total / minibatches for name, total in totals.items()}

    def _order(self, interval: int, epoch: int, steps: int, environments: int) -> list[np.ndarray]:
        """Return each shard's rows in the order of this epoch, shuffled by a stream of its own."""
        bounds = [environments * s // self._shards for s in range(self._shards + 1)]
        grid = np.arange(steps * environments).reshape(steps, environments)
        order: list[np.ndarray] = []
        for shard, (first, last) in enumerate(pairwise(bounds)):
            rng = seeding.generator(self._settings.seed, "shuffle", interval, epoch, shard)
            order.append(rng.permutation(grid[:, first:last].ravel()))
        return order

    def _minibatch(
        self,
        observations: Observations,
        targets: _Targets,
        chosen: list[np.ndarray],
        loss: Loss,
        where: str,
    ) -> _Minibatch:
        """Return metrics and clipped gradient of the rows `chosen`, shard by shard."""
        network, settings, compared = self._network, self._settings, targets.compared
        rows = chosen[0] if len(chosen) == 1 else np.concatenate(chosen)
        advantages = compared.advantages.take(rows)
        if settings.normalize_advantages and len(rows) > 1:  # a single row's advantage would be 0
            advantages = standardized(advantages)
        if settings.correction == "decoupled":
            # A weight above 0 goes through min and clip: it weighs the row's whole clipped term.
            advantages = advantages * targets.weights.take(rows)
        gradient = network.live.gradient
        total = torch.zeros_like(gradient) if len(chosen) > 1 else None
        parts: list[Metrics] = []
        start = 0
        for shard in chosen:
            end = start + len(shard)
            mine = compared.take(shard, advantages[start:end])
            derive = partial(derived, loss, network.spec.head, mine, len(rows))
            for part in self._gradient.accumulate(network.live, observations, shard, derive):
                parts.append(part)
                self._pause()
            if total is not None:
                total += gradient
            start = end
        total = gradient if total is None else total
        norm = clip_by_global_norm_(total, settings.max_gradient_norm)
        self._learning.refuse_unfinite(norm, where)
        sums = {name: sum(part[name] for part in parts) for name in parts[0]}
        return _Minibatch({**sums, "gradient_norm": norm}, total)

    def _too_far(self, minibatch: Metrics) -> bool:
        """Whether the policy has moved so far that the update ends before this minibatch's step.

        As in Stable-Baselines3, the KL is that before the step.
        """
        limit = 1.5 * self._settings.target_kl
        return bool(limit) and minibatch["approximate_kl_nats"] > limit


def _part(rows: np.ndarray, number: int, parts: int) -> np.ndarray:
    size = len(rows) // parts
    return rows[number * size : (number + 1) * size]
