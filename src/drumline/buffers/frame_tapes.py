"""FrameTapes: observations that are stacks of frames, stored as single frames.

Every environment has its own tape. An interval begins with the whole stack of its first
observation, so no row needs another storage; each later row adds its newest frame. A tape has room
for an episode that ends at every step, so an interval cannot exceed it. Unwritten parts of a tape
are address space and take no memory.
"""

from typing import Any

import numpy as np

from drumline.buffers.whole_observations import Finals, Index, Layout
from drumline.functional.frame_stacks import (
    Row,
    follow,
    keeps_old_frames,
    split,
    stack_indices,
    stacked,
)
from drumline.types import StackedFrames

Place = int | np.ndarray


class RestackingFailed(RuntimeError):
    """An environment stacks its frames differently from its description."""


def tape_layout(
    storages: int, alpha: int, environments: int, frame: tuple[int, ...], dtype: str, depth: int
) -> Layout:
    """Return name → (shape, dtype); `frame` is the shape `[C, ...]` of one frame."""
    rows = (storages, alpha + 1, environments)
    return {
        "frames": ((storages, environments, depth + 2 * alpha, *frame), dtype),
        "frame_positions": (rows, "<i4"),
        "frame_reaches": (rows, "|u1"),
    }


class FrameTapes:
    """Position of each row's stack; storage, t and environments index rows as in the storage."""

    def __init__(self, frames: np.ndarray, positions: np.ndarray, reaches: np.ndarray, depth: int):
        self._depth = depth
        self._positions = positions
        self._reaches = reaches
        storages, self._environments, self._length, *frame = frames.shape
        self._frames = frames.reshape(storages * self._environments * self._length, *frame)

    def begin(self, slot: int, environments: Index, observations: np.ndarray) -> None:
        """Store the whole first observations of an interval."""
        environments, depth = self._numbers(environments), self._depth
        start = self._starts(slot, environments)
        self._frames[start[:, None] + np.arange(depth)] = split(observations, depth)
        self._positions[slot, 0, environments] = depth - 1
        self._reaches[slot, 0, environments] = depth - 1

    def cut(self, slot: int, t: int, environment: int, observation: np.ndarray) -> None:
        """Store the last observation of an episode that was truncated at step `t`."""
        position = self._starts(slot, environment) + self._positions[slot, t, environment] + 1
        self._frames[position] = split(observation[None], self._depth)[0, -1]

    def follow(
        self,
        slot: Place,
        t: Place,
        environments: Index,
        observations: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Store the observations after step `t`: the frames that are not on the tape yet."""
        environments, depth = self._numbers(environments), self._depth
        start = self._starts(slot, environments)
        stacks = split(observations, depth)
        before = Row(self._positions[slot, t, environments], self._reaches[slot, t, environments])
        started = terminated | truncated
        kept = np.zeros(len(started), bool)
        if started.any():
            kept[started] = keeps_old_frames(stacks[started])
        row = follow(before, started, kept, truncated, depth)
        place = start + row.position
        self._frames[place] = stacks[:, -1]
        self._positions[slot, t + 1, environments] = row.position
        self._reaches[slot, t + 1, environments] = row.reach
        if kept.any():
            lost = kept & terminated
            self._frames[place[lost] - 1] = stacks[lost, -2]
            own = self._at(slot, t + 1, environments)
            _check(own.frames[own.indices[kept]], stacks[kept], environments[kept])

    def recount(self, slot: int, environment: int, truncations: int) -> None:
        """Do nothing: a row's position tells which frames were stored before it."""

    def observed(self, slot: Place, t: Place, environments: Index) -> np.ndarray:
        """Return the whole observations `[m, ...]` of these rows."""
        return stacked(self._at(slot, t, self._numbers(environments)))

    def read(self, slot: int) -> StackedFrames:
        """Return all rows `[T + 1, B]` of a storage in place."""
        steps, everybody = self._positions.shape[1], np.arange(self._environments)
        return self._at(slot, np.arange(steps)[:, None], everybody[None, :])

    def finals(self, slot: int, truncated: np.ndarray) -> Finals:
        """Return the last observations of the truncated episodes in place."""
        environments, t = np.nonzero(truncated.T)
        position = self._positions[slot, t, environments] + 1
        reach = np.minimum(self._reaches[slot, t, environments] + 1, self._depth - 1)
        observations = self._stacks(slot, environments, position, reach)
        return Finals(t.astype(np.int32), environments, observations)

    def _at(self, slot: Place, t: Place, environments: np.ndarray) -> StackedFrames:
        position, reach = (a[slot, t, environments] for a in (self._positions, self._reaches))
        return self._stacks(slot, environments, position, reach)

    def _stacks(
        self, slot: Place, environments: np.ndarray, position: np.ndarray, reach: np.ndarray
    ) -> StackedFrames:
        start = self._starts(slot, environments)[..., None]
        return StackedFrames(self._frames, start + stack_indices(position, reach, self._depth))

    def _numbers(self, environments: Index) -> np.ndarray:
        if isinstance(environments, slice):
            return np.arange(environments.start, environments.stop)
        return np.asarray(environments)

    def _starts(self, slot: Place, environments: Any) -> Any:
        """Return the starts of these environments' tapes."""
        return (np.asarray(slot) * self._environments + environments) * self._length


def _check(restacked: np.ndarray, own: np.ndarray, environments: np.ndarray) -> None:
    different = (restacked != own).reshape(len(own), -1).any(axis=1)
    if different.any():
        raise RestackingFailed(
            f"environment {environments[different][0]} began an episode with a stack that holds "
            "neither one frame repeated nor the last ones seen, so it cannot be stored once per "
            "frame: make its stacks in another way (FrameStackObservation pads with the first)"
        )
