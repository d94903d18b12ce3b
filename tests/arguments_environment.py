"""An environment with arguments of its own, and things that no worker could import."""

from typing import Any

import gymnasium
import numpy as np

DECLARED: list[int] = []


class Scaled(gymnasium.Env[np.ndarray, int]):
    """Two steps whose reward is `scale` for action 1, and 0 for action 0."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, scale: float = 1.0, offset: float = 0.0, render_mode: str | None = None):
        self._scale = scale
        self._offset = offset
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._steps = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._steps += 1
        reward = self._scale * float(action) + self._offset
        return np.zeros(2, np.float32), reward, self._steps == 2, False, {}

    class Nested:
        """A class that has no name of its own in the module."""


def made(scale: float = 1.0) -> Scaled:
    """Return the environment, from a factory."""
    return Scaled(scale)


hidden = Scaled


def shadowed() -> None:
    """Return nothing: the name of this function is taken by another below."""


old_shadowed = shadowed


def shadowed() -> None:
    """Return nothing."""


class Pictured(Scaled):
    """`Scaled`, whose observations are pictures that the seed draws."""

    observation_space = gymnasium.spaces.Box(0, 255, (1, 44, 44), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self._picture(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, *rest = super().step(action)
        return self._picture(), *rest

    def _picture(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (1, 44, 44), dtype=np.uint8)
