"""Two storages in rotation, in given arrays: interval k is in storage k mod 2.

Row t of an environment has the observation before step t and, beside it, the results of step t. Row
alpha is the first observation of the next interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.buffers.frame_tapes import FrameTapes, tape_layout
from drumline.buffers.whole_observations import (
    Index,
    Layout,
    WholeObservations,
    whole_layout,
)
from drumline.types import Rollout

STORAGES = 2
_PREFIX = "storage/"


@dataclass(frozen=True)
class RolloutShape:
    """Everything that the size of a storage depends on."""

    alpha: int
    environments: int
    observation_shape: tuple[int, ...]
    observation_dtype: str
    action_shape: tuple[int, ...]
    action_dtype: str
    noise_size: int
    truncations: int
    """Number of episodes of one environment that may be cut within one interval."""
    stack: int = 1
    """Frames per stacked observation, each stored once; any number of episodes may then be cut."""
    scores: bool = False
    """Whether the engine's own reward is stored beside the reward for learning."""

    def layout(self) -> Layout:
        """Return name → (shape, dtype) of both storages' arrays."""
        steps = (STORAGES, self.alpha, self.environments)
        arrays = {
            "actions": ((*steps, *self.action_shape), self.action_dtype),
            "rewards": (steps, "<f4"),
            "terminated": (steps, "|b1"),
            "truncated": (steps, "|b1"),
            "log_probs": (steps, "<f4"),
            "values": (steps, "<f4"),
            "versions": (steps, "<i4"),
            "noise": ((self.environments, self.noise_size), "<f4"),
            **self._observations(),
            **({"scores": (steps, "<f4")} if self.scores else {}),
        }
        return {_PREFIX + name: entry for name, entry in arrays.items()}

    def _observations(self) -> Layout:
        size = (STORAGES, self.alpha, self.environments)
        shape, dtype = self.observation_shape, self.observation_dtype
        if self.stack == 1:
            return whole_layout(*size, shape, dtype, self.truncations)
        return tape_layout(*size, (shape[0] // self.stack, *shape[1:]), dtype, self.stack)


class RolloutStorage:
    """Views of both storages by name; the first axis of each is the storage."""

    def __init__(self, shape: RolloutShape, arrays: Mapping[str, np.ndarray]):
        self.shape = shape
        self.actions = arrays[_PREFIX + "actions"]
        self.rewards = arrays[_PREFIX + "rewards"]
        self.terminated = arrays[_PREFIX + "terminated"]
        self.truncated = arrays[_PREFIX + "truncated"]
        self.log_probs = arrays[_PREFIX + "log_probs"]
        self.values = arrays[_PREFIX + "values"]
        self.versions = arrays[_PREFIX + "versions"]
        """Published version that chose each action."""
        self.noise = arrays[_PREFIX + "noise"]
        self.scores = arrays[_PREFIX + "scores"] if shape.scores else None
        self._observations: WholeObservations | FrameTapes
        if shape.stack == 1:
            names = ("observations", "final_counts", "final_steps", "final_observations")
            self._observations = WholeObservations(*(arrays[_PREFIX + name] for name in names))
        else:
            names = ("frames", "frame_positions", "frame_reaches")
            tapes = [arrays[_PREFIX + name] for name in names]
            self._observations = FrameTapes(*tapes, depth=shape.stack)
        self.observed = self._observations.observed

    def begin(self, interval: int, environments: Index, observations: np.ndarray) -> None:
        """Store the first observations of these environments' interval."""
        self._observations.begin(interval % STORAGES, environments, observations)

    def follow(self, at: tuple[Any, Any, Any], observations: np.ndarray) -> None:
        """Store the observations after the steps of rows (storage, t, environments)."""
        self._observations.follow(*at, observations, self.terminated[at], self.truncated[at])

    def cut(self, interval: int, t: int, environment: int, observation: np.ndarray) -> None:
        """Store the last observation of an episode that was truncated at step `t`."""
        self._observations.cut(interval % STORAGES, t, environment, observation)

    def recount(self, interval: int, environment: int, done: int) -> None:
        """Count the truncations of a half-done interval again: the last may not have counted."""
        slot = interval % STORAGES
        truncations = int(np.count_nonzero(self.truncated[slot, :done, environment]))
        self._observations.recount(slot, environment, truncations)

    def read(self, interval: int) -> Rollout:
        """Return one interval in place; valid until the storage is written again."""
        slot = interval % STORAGES
        finals = self._observations.finals(slot, self.truncated[slot])
        return Rollout(
            interval=interval,
            observations=self._observations.read(slot),
            actions=self.actions[slot],
            rewards=self.rewards[slot],
            terminated=self.terminated[slot],
            truncated=self.truncated[slot],
            log_probs=self.log_probs[slot],
            values=self.values[slot],
            final_steps=finals.steps,
            final_environments=finals.environments,
            final_observations=finals.observations,
            scores=None if self.scores is None else self.scores[slot],
        )
