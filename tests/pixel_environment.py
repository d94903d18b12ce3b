"""A small game on images: a bright square falls, and is caught by the bar below it."""

from typing import Any

import gymnasium
import numpy as np

SIDE = 36


class Falling(gymnasium.Env):
    """Two frames `[2, 36, 36]`; actions left, stay, right; reward 1 for a caught square."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, SIDE, SIDE), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._frames = np.zeros((2, SIDE, SIDE), np.uint8)
        self._bar = SIDE // 2
        self._begin()
        self._draw()
        return self._frames.copy(), {}

    def _begin(self) -> None:
        self._row, self._column = 0, int(self.np_random.integers(4, SIDE - 4))

    def _draw(self) -> None:
        self._frames[0] = self._frames[1]
        self._frames[1] = 0
        self._frames[1, self._row : self._row + 4, self._column - 2 : self._column + 2] = 255
        self._frames[1, SIDE - 2 :, self._bar - 4 : self._bar + 4] = 160

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._bar = int(np.clip(self._bar + 3 * (int(action) - 1), 4, SIDE - 4))
        self._row += 4
        reward = 0.0
        if self._row >= SIDE - 4:
            reward = float(abs(self._bar - self._column) <= 4)
            self._begin()
        self._draw()
        return self._frames.copy(), reward, False, False, {}


def make() -> gymnasium.Env:
    """The game for 40 steps."""
    return gymnasium.wrappers.TimeLimit(Falling(), 40)


def bytes_last() -> gymnasium.Env:
    """The same with the frames behind rows and columns, as cameras give them."""
    made = make()
    space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 2), np.uint8)
    return gymnasium.wrappers.TransformObservation(made, lambda o: o.transpose(1, 2, 0), space)
