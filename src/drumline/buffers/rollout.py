"""Two storages in rotation, laid over arrays handed in: interval k lives in storage k mod 2.

Row t of an environment holds the observation before step t; what step t brings is written beside
it. Row alpha is the observation that the next interval begins with.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

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
    """How many episodes of one environment may be cut within one interval."""

    def layout(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return name → (shape, dtype) of both storages' arrays."""
        steps = (STORAGES, self.alpha, self.environments)
        cut = (STORAGES, self.environments, self.truncations)
        arrays = {
            "observations": (
                (STORAGES, self.alpha + 1, self.environments, *self.observation_shape),
                self.observation_dtype,
            ),
            "actions": ((*steps, *self.action_shape), self.action_dtype),
            "rewards": (steps, "<f4"),
            "terminated": (steps, "|b1"),
            "truncated": (steps, "|b1"),
            "log_probs": (steps, "<f4"),
            "values": (steps, "<f4"),
            "versions": (steps, "<i4"),
            "final_counts": ((STORAGES, self.environments), "<i4"),
            "final_steps": (cut, "<i4"),
            "final_observations": ((*cut, *self.observation_shape), self.observation_dtype),
            "noise": ((self.environments, self.noise_size), "<f4"),
        }
        return {_PREFIX + name: entry for name, entry in arrays.items()}


class RolloutStorage:
    """Views of both storages by name; the first axis of each is the storage."""

    def __init__(self, shape: RolloutShape, arrays: Mapping[str, np.ndarray]):
        self.shape = shape
        self.observations = arrays[_PREFIX + "observations"]
        self.actions = arrays[_PREFIX + "actions"]
        self.rewards = arrays[_PREFIX + "rewards"]
        self.terminated = arrays[_PREFIX + "terminated"]
        self.truncated = arrays[_PREFIX + "truncated"]
        self.log_probs = arrays[_PREFIX + "log_probs"]
        self.values = arrays[_PREFIX + "values"]
        self.versions = arrays[_PREFIX + "versions"]
        """Which published version chose each action."""
        self.final_counts = arrays[_PREFIX + "final_counts"]
        self.final_steps = arrays[_PREFIX + "final_steps"]
        self.final_observations = arrays[_PREFIX + "final_observations"]
        self.noise = arrays[_PREFIX + "noise"]

    def begin(self, interval: int, environments: "np.ndarray | slice") -> None:
        """Forget the truncations that these environments had two intervals ago."""
        self.final_counts[interval % STORAGES, environments] = 0

    def cut(self, interval: int, t: int, environment: int, observation: np.ndarray) -> None:
        """Keep the last observation of an episode that was truncated at step `t`."""
        slot = interval % STORAGES
        count = int(self.final_counts[slot, environment])
        if count == self.shape.truncations:
            raise RuntimeError(
                f"environment {environment} was truncated more than {count} times within one "
                f"interval of {self.shape.alpha} steps; raise --truncations-per-interval"
            )
        self.final_steps[slot, environment, count] = t
        self.final_observations[slot, environment, count] = observation
        self.final_counts[slot, environment] = count + 1

    def read(self, interval: int) -> Rollout:
        """Return one interval in place; valid until the storage is written again."""
        slot = interval % STORAGES
        counts = self.final_counts[slot]
        kept = np.arange(self.shape.truncations)[None, :] < counts[:, None]
        return Rollout(
            interval=interval,
            observations=self.observations[slot],
            actions=self.actions[slot],
            rewards=self.rewards[slot],
            terminated=self.terminated[slot],
            truncated=self.truncated[slot],
            log_probs=self.log_probs[slot],
            values=self.values[slot],
            final_steps=self.final_steps[slot][kept],
            final_environments=np.nonzero(kept)[0],
            final_observations=self.final_observations[slot][kept],
        )
