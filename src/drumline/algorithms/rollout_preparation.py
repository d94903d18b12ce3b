"""Preparation of an interval before any gradient: tensors, normalised and scaled.

The observation moments that actors used belong to their version. The data of an interval are
therefore normalised with the moments of the version that collected them, and only then folded.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from drumline.algorithms.device_copies import DeviceCopies
from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.stacked_rows import Observations, StackedRows
from drumline.functional.frame_stacks import whole
from drumline.functional.moments import inverse_std, moments_of
from drumline.functional.returns import next_values
from drumline.functional.reward_scaling import RewardScaling, fold, initial_scaling, scaled
from drumline.functional.shards import Part, Shards
from drumline.policies.observations import normalized
from drumline.types import Moments, Rollout, StackedFrames, State


class Prepared(NamedTuple):
    """One interval as tensors; B environments, T steps, J truncated episodes."""

    observations: Observations
    """[(T + 1) · B, …] input of the network, row by row in the order (t, environment)."""
    final_observations: Observations
    """[J, …]"""
    final_steps: Tensor
    """[J]"""
    final_environments: Tensor
    """[J]"""
    actions: Tensor
    """[T, B, …]"""
    rewards: Tensor
    """[T, B] float32, scaled if asked."""
    discounts: Tensor
    """[T, B]: γ, or 0 if the episode terminated."""
    ended: Tensor
    """[T, B] bool: terminated or truncated."""
    truncated: Tensor
    """[T, B] bool."""
    log_probs: Tensor
    values: Tensor

    def next_values(self, values: Tensor, tail: Tensor, final: Tensor) -> Tensor:
        """Return the value of the state after each step, within its own episode."""
        grid = torch.zeros_like(values)
        grid[self.final_steps, self.final_environments] = final
        return next_values(values, tail, grid, self.truncated)


class RolloutPreparation:
    """Observation moments and reward scale, carried from interval to interval."""

    def __init__(
        self,
        observation_size: int,
        environments: int,
        *,
        discount: float,
        normalize_observations: bool,
        scale_rewards: bool,
        clip_rewards: bool = False,
        renew_intervals: int = 0,
        copies: DeviceCopies | None = None,
        moments: Moments | None = None,
    ):
        """`copies`: copies of the observations on the device that learns; None: in place.

        `moments`: those of observations at the start, if a policy was trained before.
        """
        self._copies = copies
        self._discount = discount
        scale = partial(inverse_std, variance_floor=1e-8)
        self._moments = (
            ObservationMoments(observation_size, scale, first=moments)
            if normalize_observations
            else None
        )
        self._empty: dict[str, np.ndarray] = {}
        """Moments of nothing, as published; none where there is something from the start."""
        if self._moments is not None and moments is None:
            self._empty = self._moments.published()
        self._scale: RewardScaling | None = initial_scaling(environments) if scale_rewards else None
        self._pending = self._scale
        self._clip_rewards = clip_rewards
        self._renew_intervals = renew_intervals

    def prepare(
        self, rollout: Rollout, behavior: Mapping[str, np.ndarray], shards: Shards
    ) -> list[Prepared]:
        """Return the interval of each own shard as tensors; statistics count only after `fold`."""
        bounds = shards.bounds(rollout.rewards.shape[1])
        _refuse_unfinite(rollout, bounds[0][0], bounds[-1][1])
        ended = rollout.terminated | rollout.truncated
        discounts = np.where(rollout.terminated, 0.0, self._discount).astype(np.float32)
        rewards = self._rewards(rollout, ended)
        return [
            self._shard(rollout, behavior, (rewards, discounts, ended), first, last)
            for first, last in bounds
        ]

    def _shard(
        self,
        rollout: Rollout,
        behavior: Mapping[str, np.ndarray],
        derived: tuple[np.ndarray, np.ndarray, np.ndarray],
        first: int,
        last: int,
    ) -> Prepared:
        """Return the part of environments `first … last − 1`; `derived`: of all environments."""
        own = slice(first, last)
        mine = (rollout.final_environments >= first) & (rollout.final_environments < last)
        rewards, discounts, ended = derived
        observations = self._observations(_rows(rollout.observations, own), behavior)
        final = self._observations(_final(rollout, mine), behavior)
        if self._copies is not None:
            observations, final = self._copies.of(observations, final)
        return Prepared(
            observations=observations,
            final_observations=final,
            final_steps=torch.from_numpy(rollout.final_steps[mine].astype(np.int64)),
            final_environments=torch.from_numpy(rollout.final_environments[mine] - first),
            actions=torch.from_numpy(rollout.actions[:, own]),
            rewards=torch.from_numpy(rewards[:, own]),
            discounts=torch.from_numpy(discounts[:, own]),
            ended=torch.from_numpy(ended[:, own]),
            truncated=torch.from_numpy(rollout.truncated[:, own]),
            log_probs=torch.from_numpy(rollout.log_probs[:, own]),
            values=torch.from_numpy(rollout.values[:, own]),
        )

    def raw(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> bool:
        """Whether the policy that acted normalised observations by moments of nothing.

        Versions 0 and, with a lag, 1 carry such moments; their intervals fill the moments, and a
        policy learns nothing from observations that are not to scale.
        """
        if not self._empty or rollout.interval > 1:
            return False
        return all(np.array_equal(behavior[name], array) for name, array in self._empty.items())

    def seen(self, rollout: Rollout, shards: Shards) -> list[Part]:
        """Return the moments of each own shard's observations; empty parts without moments."""
        bounds = shards.bounds(rollout.rewards.shape[1])
        if self._moments is None:
            return [() for _ in bounds]
        rows = whole(rollout.observations)[:-1]
        return [_moments_part(rows[:, first:last]) for first, last in bounds]

    def fold(self, seen: Sequence[Part]) -> None:
        """Fold the last prepared interval into the statistics, for the next published version.

        `seen`: what all shards have seen, in their order.
        """
        self._scale = self._pending
        if self._moments is not None:
            self._moments.add([Moments(float(n[0]), mean, squares) for n, mean, squares in seen])

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays for acting, without the parameters."""
        return {} if self._moments is None else self._moments.published()

    def state(self) -> State:
        """Return copies of all running statistics."""
        tensors: dict[str, np.ndarray] = {}
        counters: dict[str, int | float] = {}
        if self._moments is not None:
            saved = self._moments.state()
            tensors.update(saved.tensors)
            counters.update(saved.counters)
        if self._scale is not None:
            tensors["reward_returns"] = self._scale.discounted_returns.copy()
            tensors["reward_mean"] = self._scale.moments.mean.copy()
            tensors["reward_squares"] = self._scale.moments.squares.copy()
            counters["reward_count"] = self._scale.moments.count
        return State(tensors, counters)

    def load(self, state: State) -> None:
        """Load running statistics."""
        if self._moments is not None:
            self._moments.load(state)
        if self._scale is not None:
            moments = self._scale.moments
            self._scale = RewardScaling(
                state.tensor("reward_returns", like=self._scale.discounted_returns),
                Moments(
                    float(state.counter("reward_count")),
                    state.tensor("reward_mean", like=moments.mean),
                    state.tensor("reward_squares", like=moments.squares),
                ),
            )
            self._pending = self._scale

    def _observations(
        self, raw: np.ndarray | StackedFrames, behavior: Mapping[str, np.ndarray]
    ) -> Observations:
        if isinstance(raw, StackedFrames):
            return StackedRows.of(raw)
        if raw.dtype == np.uint8:
            return torch.from_numpy(raw)
        if self._moments is None:
            return torch.from_numpy(raw.astype(np.float32))
        mean, inverse_std = behavior["observation_mean"], behavior["observation_inverse_std"]
        return torch.from_numpy(normalized(raw, mean, inverse_std))

    def _rewards(self, rollout: Rollout, ended: np.ndarray) -> np.ndarray:
        if self._scale is not None:
            scale, every = self._scale, self._renew_intervals
            if every and rollout.interval % every == 0:  # a renewal has cut every episode
                scale = scale._replace(discounted_returns=np.zeros_like(scale.discounted_returns))
            self._pending = fold(scale, rollout.rewards, ended, self._discount)
            return scaled(rollout.rewards, self._pending)
        if self._clip_rewards:
            return np.sign(rollout.rewards)
        return rollout.rewards


def _rows(
    observations: np.ndarray | StackedFrames, environments: slice
) -> np.ndarray | StackedFrames:
    """Return the rows of some environments in the order (t, environment)."""
    if isinstance(observations, StackedFrames):
        return observations._replace(indices=observations.indices[:, environments])
    own = observations[:, environments]
    return own.reshape(-1, *own.shape[2:])


def _final(rollout: Rollout, chosen: np.ndarray) -> np.ndarray | StackedFrames:
    final = rollout.final_observations
    if isinstance(final, StackedFrames):
        return final._replace(indices=final.indices[chosen])
    return final[chosen]


def _moments_part(rows: np.ndarray) -> Part:
    """Return count, mean and squares of observations `[T, B, …]`."""
    found = moments_of(np.ascontiguousarray(rows.reshape(-1, rows[0, 0].size)))
    return np.array([found.count]), found.mean, found.squares


def _refuse_unfinite(rollout: Rollout, first: int, last: int) -> None:
    """Raise with environment and step: later a NaN could not be located.

    Only environments `first … last − 1` have observations in this process.
    """
    for what, array in (("observation", rollout.observations), ("reward", rollout.rewards)):
        if isinstance(array, StackedFrames) or array.dtype.kind != "f":
            continue
        finite = np.isfinite(array[:, first:last])
        if not finite.all():
            t, own = np.argwhere(~finite)[0][:2].tolist()
            environment = first + own
            raise UnfiniteLoss(
                f"the {what} of environment {environment} at step {t} of interval "
                f"{rollout.interval} is {array[t, environment]}; the parameters are as they were "
                "before that interval"
            )
    final = rollout.final_observations
    if isinstance(final, StackedFrames) or final.dtype.kind != "f":
        return
    where, steps = rollout.final_environments, rollout.final_steps
    for number in np.flatnonzero((where >= first) & (where < last)):
        if not np.isfinite(final[number]).all():
            raise UnfiniteLoss(
                f"the last observation of an episode of environment {where[number]} that was "
                f"truncated at step {steps[number]} of interval {rollout.interval} is "
                f"{final[number]}; the parameters are as they were before that interval"
            )
