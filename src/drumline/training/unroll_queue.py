"""The queue of a free-running method: full unrolls in the order in which they were noticed."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.buffers.rollout import STORAGES, RolloutStorage
from drumline.functional.frame_stacks import whole
from drumline.types import Rollout, StackedFrames


class UnrollQueue:
    """Two unrolls of each environment fit in the storages: one that is written, and one here."""

    def __init__(
        self,
        storage: RolloutStorage,
        exchange: Any,
        begun: int,
        fold: Callable[[int, Rollout, int], np.ndarray],
    ):
        """`fold(environment, unroll, update)` sees each unroll alone and returns its rewards."""
        self._storage = storage
        self._exchange = exchange
        self._alpha = storage.shape.alpha
        self._noticed = np.full(storage.shape.environments, begun, np.int64)
        self._waiting: deque[tuple[int, int]] = deque()
        self._fold = fold
        self.lags = np.zeros(0)
        """Policies between acting and learning, of every step in the batch taken last."""

    @property
    def furthest(self) -> int:
        """Return the index of the newest unroll that an environment can have begun."""
        return int(self._noticed.max()) + STORAGES - 1

    def waiting(self) -> int:
        """Return the number of unrolls that are full and not taken."""
        full = self._exchange.finished // self._alpha
        new = [
            (unroll, environment)
            for environment in np.flatnonzero(full > self._noticed).tolist()
            for unroll in range(int(self._noticed[environment]), int(full[environment]))
        ]
        self._waiting.extend((environment, unroll) for unroll, environment in sorted(new))
        self._noticed = full
        return len(self._waiting)

    def take(self, count: int, update: int) -> Rollout:
        """Return the oldest unrolls as one rollout, and release their storage."""
        taken = [self._waiting.popleft() for _ in range(count)]
        wholes = [self._storage.read(slot) for slot in range(STORAGES)]
        rewards: dict[tuple[int, int], np.ndarray] = {}
        for environment, unroll in taken:  # an environment's unrolls in their order
            alone = column(wholes[unroll % STORAGES], environment)._replace(interval=unroll)
            rewards[environment, unroll] = self._fold(environment, alone, update)
        parts: list[Rollout] = []
        lags: list[np.ndarray] = []
        for slot, stored in enumerate(wholes):
            chosen = [entry for entry in taken if entry[1] % STORAGES == slot]
            if chosen:
                environments = [environment for environment, _ in chosen]
                own = np.concatenate([rewards[entry] for entry in chosen], axis=1)
                parts.append(columns(stored, environments)._replace(rewards=own))
                lags.append(update - self._storage.versions[slot][:, environments].ravel())
        self.lags = np.concatenate(lags)
        for environment, unroll in taken:
            limit = np.array([unroll + STORAGES])
            self._exchange.release_to(np.array([environment]), limit)
        return joined(parts, update)


def column(rollout: Rollout, environment: int) -> Rollout:
    """Return one environment's part of a rollout, in place where it can be."""
    return _chosen(rollout, slice(environment, environment + 1), [environment])


def columns(rollout: Rollout, environments: list[int]) -> Rollout:
    """Return copies of several environments' parts, in this order."""
    chosen = _chosen(rollout, environments, environments)
    return chosen._replace(
        observations=whole(chosen.observations),
        final_observations=whole(chosen.final_observations),
        scores=None,  # the learner does not use them
    )


def joined(parts: list[Rollout], interval: int) -> Rollout:
    """Return rollouts side by side."""
    if len(parts) == 1:
        return parts[0]._replace(interval=interval)
    widths = np.cumsum([0, *(part.rewards.shape[1] for part in parts)]).tolist()
    grids = ("observations", "actions", "rewards", "terminated", "truncated", "log_probs", "values")
    shifted = [part.final_environments + width for part, width in zip(parts, widths, strict=False)]
    return Rollout(
        interval=interval,
        **{name: np.concatenate([getattr(part, name) for part in parts], 1) for name in grids},
        final_steps=np.concatenate([part.final_steps for part in parts]),
        final_environments=np.concatenate(shifted),
        final_observations=np.concatenate([part.final_observations for part in parts]),
    )


def _chosen(rollout: Rollout, which: slice | list[int], environments: list[int]) -> Rollout:
    rows = [np.flatnonzero(rollout.final_environments == e) for e in environments]
    places = np.repeat(np.arange(len(environments)), [len(own) for own in rows])
    finals = np.concatenate(rows)
    grids = ("actions", "rewards", "terminated", "truncated", "log_probs", "values")
    rest, last = rollout.observations, rollout.final_observations
    every = slice(None)
    return rollout._replace(
        **{name: getattr(rollout, name)[:, which] for name in grids},
        observations=_picked(rest, (every, which)),
        scores=None if rollout.scores is None else rollout.scores[:, which],
        final_steps=rollout.final_steps[finals],
        final_environments=places,
        final_observations=_picked(last, finals),
    )


def _picked(observations: np.ndarray | StackedFrames, which: Any) -> np.ndarray | StackedFrames:
    if isinstance(observations, StackedFrames):
        return observations._replace(indices=observations.indices[which])
    return observations[which]
