"""An environment that says at each step whether its goal is reached."""

from typing import Any

import gymnasium
import numpy as np


class Reaching(gymnasium.Env):
    """Walk to the right; the info of each step has numbers, text and a nested entry."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place, self._left = float(self.np_random.normal()), 8
        return self._seen(), {}

    def _seen(self) -> np.ndarray:
        return np.array([self._place, self._left], np.float32)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = float(np.clip(self._place + (0.5 if action else -0.5), -9.0, 9.0))
        self._left -= 1
        told = {"is_success": self._place > 1.0, "steps_left": self._left, "more": {"a": 1}}
        return self._seen(), self._place, self._left == 0, False, {**told, "text": "so"}
