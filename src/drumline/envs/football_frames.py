"""Input of football networks: stacks of four minimaps, as the game's own stacked observation."""

from typing import Any

import numpy as np

from drumline.envs.environment import EnvironmentSpec

STACK = 4
GAME_BYTES = 44 << 20
"""Memory of a game that was closed, until its process ends (measured)."""


def is_football(env_id: str) -> bool:
    """Return whether an EnvPool id is one of Google Research Football's."""
    return env_id.startswith("gfootball/")


def never_freed(spec: EnvironmentSpec) -> bool:
    """Return whether closed environments keep their memory, as EnvPool's football does."""
    return spec.engine == "envpool" and is_football(spec.id)


def stacked_space(space: Any) -> Any:
    """Return the space of stacks, given the space of minimaps."""
    import gymnasium

    height, width, planes = space.shape
    return gymnasium.spaces.Box(0, 255, (STACK * planes, height, width), space.dtype)


class FootballFrames:
    """The latest frames of each environment."""

    def __init__(self, count: int, minimaps: tuple[int, ...]):
        height, width, self._planes = minimaps
        self._stacks = np.zeros((count, STACK * self._planes, height, width), np.uint8)

    def start(self, lanes: np.ndarray, minimaps: np.ndarray) -> np.ndarray:
        """Return the stacks of these lanes' new episodes."""
        self._stacks[lanes] = np.tile(_planes_first(minimaps), (1, STACK, 1, 1))
        return self._stacks[lanes]

    def follow(self, lanes: np.ndarray, minimaps: np.ndarray) -> np.ndarray:
        """Return the stacks after one more frame."""
        older = self._stacks[lanes, self._planes :]
        self._stacks[lanes] = np.concatenate([older, _planes_first(minimaps)], axis=1)
        return self._stacks[lanes]


def _planes_first(minimaps: np.ndarray) -> np.ndarray:
    return minimaps.transpose(0, 3, 1, 2)
