"""A ring of transitions in given arrays, with every observation stored once.

Transition i is in row i mod rows; its next observation is in the following row. Only the last
observation of a cut episode is in no row: it is in a side list behind the ring. A *watermark* w
(the number of transitions ever appended) names the window [w − capacity, w). With `slack` rows
beyond the capacity, windows of older watermarks stay whole while the ring moves on. There is one
writer; every reader knows its watermark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_PREFIX = "replay/"
GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2
"""Kinds of a transition: the episode goes on, terminates or is truncated."""


class ReplayFull(ValueError):
    """Appending would overwrite a window in use, or has too few slots for final observations."""


@dataclass(frozen=True)
class ReplayShape:
    """Everything that the memory of a replay depends on."""

    capacity: int
    observation_size: int
    action_size: int
    """Number of values in an action; 1 for a discrete action."""
    slack: int
    """Rows beyond the capacity, at least 1."""
    truncations: int
    """Number of cut episodes for which all windows in use have room."""

    def __post_init__(self) -> None:
        for name in ("capacity", "observation_size", "action_size", "slack", "truncations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of a replay must be 1 or more, got {getattr(self, name)}")

    @property
    def rows(self) -> int:
        """Return the number of transitions in the ring."""
        return self.capacity + self.slack

    def layout(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return name → (shape, dtype) of the arrays."""
        arrays = {
            "observations": ((self.rows + self.truncations, self.observation_size), "<f4"),
            "actions": ((self.rows, self.action_size), "<f4"),
            "rewards": ((self.rows,), "<f4"),
            "terminated": ((self.rows,), "|b1"),
            "following": ((self.rows,), "<i8"),
        }
        return {_PREFIX + name: entry for name, entry in arrays.items()}


class Transitions(NamedTuple):
    """Consecutive transitions, across any number of episodes."""

    observations: np.ndarray
    """[T, D] observation that each action was chosen from."""
    actions: np.ndarray
    """[T, A]"""
    rewards: np.ndarray
    """[T]"""
    kinds: np.ndarray
    """[T] uint8: GOES_ON, TERMINATED or TRUNCATED."""
    final_observations: np.ndarray
    """[J, D] last observation of each truncated episode, in order."""
    next_observation: np.ndarray
    """[D] observation after the last transition, if its episode goes on."""


def one_episode(
    observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray, kind: int
) -> Transitions:
    """Return a whole episode, or a part of one, from its observations `[T + 1, D]`."""
    kinds = np.full(len(rewards), GOES_ON, np.uint8)
    kinds[-1] = kind
    last = observations[-1]
    finals = observations[-1:] if kind == TRUNCATED else observations[:0]
    return Transitions(observations[:-1], actions, rewards, kinds, finals, last)


class Batch(NamedTuple):
    """Arrays into which a minibatch is gathered."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    next_observations: np.ndarray

    @staticmethod
    def allocate(size: int, shape: ReplayShape) -> "Batch":
        """Return uninitialised arrays for `size` transitions."""
        observations = np.empty((2, size, shape.observation_size), np.float32)
        actions = np.empty((size, shape.action_size), np.float32)
        rewards, terminated = np.empty(size, np.float32), np.empty(size, np.bool_)
        return Batch(observations[0], actions, rewards, terminated, observations[1])


class Replay:
    """A reader's view of a replay: rows of a window, and their contents."""

    def __init__(self, shape: ReplayShape, arrays: Mapping[str, np.ndarray]):
        self.shape = shape
        self.observations = arrays[_PREFIX + "observations"]
        self.actions = arrays[_PREFIX + "actions"]
        self.rewards = arrays[_PREFIX + "rewards"]
        self.terminated = arrays[_PREFIX + "terminated"]
        self.following = arrays[_PREFIX + "following"]

    def rows(self, uniform: np.ndarray, watermark: int) -> np.ndarray:
        """Return rows of a window, drawn with replacement by numbers in [0, 1).

        One block of numbers serves many minibatches, each with its own window.
        """
        count = min(watermark, self.shape.capacity)
        if count < 1:
            raise ValueError("nothing can be drawn from an empty replay")
        chosen = (uniform * count).astype(np.int64)
        chosen += watermark - count
        chosen %= self.shape.rows
        return chosen

    def gather(self, rows: np.ndarray, into: Batch) -> None:
        """Copy the transitions in `rows`; after termination the next observation is meaningless."""
        # Rows are in range by construction: "clip" saves the check and its copy.
        np.take(self.observations, rows, axis=0, out=into.observations, mode="clip")
        np.take(self.actions, rows, axis=0, out=into.actions, mode="clip")
        np.take(self.rewards, rows, out=into.rewards, mode="clip")
        np.take(self.terminated, rows, out=into.terminated, mode="clip")
        following = self.following[rows]
        np.take(self.observations, following, axis=0, out=into.next_observations, mode="clip")

    def gather_observations(self, rows: np.ndarray, into: np.ndarray) -> None:
        """Copy the observations in `rows`, which are all that an actor's gradient step needs."""
        np.take(self.observations, rows, axis=0, out=into, mode="clip")


Wrote = Callable[[str, int, int], None]
"""Told of every write: name of the array, first row, and the row after the last."""


class ReplayWriter:
    """The one writer of a replay."""

    def __init__(self, replay: Replay, wrote: Wrote | None = None):
        self.replay = replay
        self._wrote = wrote
        self.watermark = 0
        self.next_observation: np.ndarray | None = None
        """Observation with which an episode that goes on must begin its next part."""
        self._truncations = 0
        self._owners = np.full(replay.shape.truncations, -1, np.int64)
        """Number of the transition whose final observation each slot of the side list has."""

    def has_room(self, transitions: Transitions, oldest: int | None = None) -> bool:
        """Return whether an append would spare the windows of all watermarks from `oldest` on.

        None: no reader is active, so that only the window afterwards counts.
        """
        after = self.watermark + len(transitions.rewards)
        oldest = after if oldest is None else min(oldest, after)
        first = max(0, oldest - self.replay.shape.capacity)
        # The row after the last transition is written too, with its next observation.
        if after >= first + self.replay.shape.rows:
            return False
        slots = self._slots(len(transitions.final_observations))
        return slots is not None and not np.any(self._owners[slots] >= first)

    def why_not(self, transitions: Transitions, oldest: int | None) -> str:
        """Return in words why there is no room."""
        shape, count = self.replay.shape, len(transitions.rewards)
        at = self.watermark + count if oldest is None else oldest
        if self.watermark + count < max(0, at - shape.capacity) + shape.rows:
            return (
                f"more than {shape.truncations} episodes of a replay window of {shape.capacity} "
                "transitions were cut, long before their time limit on average: let such an "
                "environment terminate them instead, or register it without max_episode_steps"
            )
        return (
            f"{count} transitions more than {self.watermark} would overwrite the window of "
            f"watermark {at}: the replay has {shape.slack} rows beyond its {shape.capacity}"
        )

    def append(self, transitions: Transitions, oldest: int | None = None) -> None:
        """Append; ReplayFull if windows from watermark `oldest` on would be overwritten.

        A refused append changes nothing.
        """
        self._check(transitions)
        if not self.has_room(transitions, oldest):
            raise ReplayFull(self.why_not(transitions, oldest))
        self.write(transitions)

    def write(self, transitions: Transitions) -> None:
        """Append without a check, for transitions that were appended before."""
        replay, ring = self.replay, self.replay.shape.rows
        count = len(transitions.rewards)
        rows = np.arange(self.watermark, self.watermark + count) % ring
        replay.observations[rows] = transitions.observations
        replay.actions[rows] = transitions.actions
        replay.rewards[rows] = transitions.rewards
        replay.terminated[rows] = transitions.kinds == TERMINATED
        following = (rows + 1) % ring
        ends = transitions.kinds == TERMINATED
        following[ends] = rows[ends]  # any finite number: no value is read there
        cut = np.flatnonzero(transitions.kinds == TRUNCATED)
        slots = (self._truncations + np.arange(len(cut))) % len(self._owners)
        replay.observations[ring + slots] = transitions.final_observations
        following[cut] = ring + slots
        replay.following[rows] = following
        if self._wrote is not None:
            self._tell(self._wrote, int(rows[0]), count, slots)
        self._owners[slots] = self.watermark + cut
        self._truncations += len(cut)
        self.watermark += count
        self.next_observation = None
        if transitions.kinds[-1] == GOES_ON:
            self.reached(transitions.next_observation)

    def reached(self, observation: np.ndarray) -> None:
        """Store the observation after the newest transition, whose episode goes on."""
        self.next_observation = np.array(observation, np.float32)
        row = self.watermark % self.replay.shape.rows
        self.replay.observations[row] = self.next_observation
        if self._wrote is not None:
            self._wrote(_PREFIX + "observations", row, row + 1)

    def _tell(self, wrote: Wrote, first: int, count: int, slots: np.ndarray) -> None:
        """Tell of the rows of `write`, which may go around the end of the ring."""
        ring = self.replay.shape.rows
        before_end = min(count, ring - first)
        for name in ("observations", "actions", "rewards", "terminated", "following"):
            wrote(_PREFIX + name, first, first + before_end)
            if before_end < count:
                wrote(_PREFIX + name, 0, count - before_end)
        for slot in slots.tolist():
            wrote(_PREFIX + "observations", ring + slot, ring + slot + 1)

    def restart(self, watermark: int) -> None:
        """Clear the replay and continue at `watermark`, as the start of loading."""
        self.watermark = watermark
        self.next_observation = None
        self._truncations = 0
        self._owners[:] = -1

    def last(self, count: int) -> Transitions:
        """Return copies of the newest `count` transitions."""
        replay, ring = self.replay, self.replay.shape.rows
        numbers = np.arange(self.watermark - count, self.watermark)
        rows = numbers % ring
        following = replay.following[rows]
        kinds = np.where(replay.terminated[rows], TERMINATED, GOES_ON).astype(np.uint8)
        cut = following >= ring
        kinds[cut] = TRUNCATED
        after = self.next_observation
        return Transitions(
            replay.observations[rows],
            replay.actions[rows],
            replay.rewards[rows],
            kinds,
            replay.observations[following[cut]],
            np.zeros(replay.shape.observation_size, np.float32) if after is None else after,
        )

    def _slots(self, count: int) -> np.ndarray | None:
        if count > len(self._owners):
            return None
        return (self._truncations + np.arange(count)) % len(self._owners)

    def _check(self, transitions: Transitions) -> None:
        if not len(transitions.rewards):
            raise ValueError("there are no transitions to append")
        for name in ("observations", "actions", "rewards", "final_observations"):
            array = np.asarray(getattr(transitions, name), np.float32)
            if not np.isfinite(array).all():
                raise ValueError(f"the {name} of a transition are not finite as float32")
        if self.next_observation is not None and not np.array_equal(
            self.next_observation, np.asarray(transitions.observations[0], np.float32)
        ):
            raise ValueError("an episode goes on, but not from the observation that it reached")
