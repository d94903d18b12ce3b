"""One task with observations of bytes, and with the same as float32 that was divided by 255."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Bytes(gymnasium.Env):
    """Six bytes of an episode's own; the action is to be their first, between -1 and 1."""

    observation_space = Box(0, 255, (2, 3), np.uint8)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._drawn(), {}

    def step(self, action):
        self._steps += 1
        reward = -abs(float(action[0]) - self._target)
        return self._drawn(), reward, False, self._steps == 10, {}

    def _drawn(self):
        drawn = self.np_random.integers(0, 256, (2, 3), np.uint8)
        self._target = float(drawn[0, 0]) / 127.5 - 1.0
        return self.seen(drawn)

    def seen(self, drawn: np.ndarray) -> np.ndarray:
        return drawn


class Fractions(Bytes):
    """The same in fractions of 255."""

    observation_space = Box(0.0, 1.0, (2, 3), np.float32)

    def seen(self, drawn: np.ndarray) -> np.ndarray:
        return drawn * np.float32(1.0 / 255.0)


class Unscaled(Bytes):
    """The same numbers, 0 to 255, as float32."""

    observation_space = Box(0.0, 255.0, (2, 3), np.float32)

    def seen(self, drawn: np.ndarray) -> np.ndarray:
        return drawn.astype(np.float32)
