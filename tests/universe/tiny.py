"""An environment for universes: a few numbers, short episodes, and a point in every step."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

POINTS: list[Any] = []
"""The world that is running, if any."""


class Tiny(gymnasium.Env[np.ndarray, Any]):
    """Keep a drifting number near 0; episodes last 2 to 9 steps."""

    def __init__(self, continuous: bool = False):
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = (
            spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        )
        self._continuous = continuous

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        point("reset")
        self._place = float(self.np_random.uniform(-1.0, 1.0))
        self._left = int(self.np_random.integers(2, 10))
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        """Move."""
        point("step")
        move = float(np.asarray(action).reshape(-1)[0]) if self._continuous else 2.0 * action - 1.0
        self._place += 0.3 * move + 0.1 * float(self.np_random.standard_normal())
        self._left -= 1
        return self._seen(), 1.0 - abs(self._place), self._left <= 0, False, {}

    def _seen(self) -> np.ndarray:
        return np.array([self._place, self._left / 10.0], np.float32)


def point(label: str) -> None:
    """A point of the running world."""
    for world in POINTS:
        world.point(label)


def continuous() -> Tiny:
    """Return one with continuous actions."""
    return Tiny(continuous=True)
