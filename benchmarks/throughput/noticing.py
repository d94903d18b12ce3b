"""An environment that sleeps 10 ms a step and rewards actions near a target, for counting bytes.

An episode takes 0.1 s, whatever the size of the network, so that runs with different networks take
about the same time a generation.
"""

import time
from typing import Any

import gymnasium
import numpy as np

STEPS, STEP_SECONDS, SIZE = 10, 10e-3, 16


class Noticing(gymnasium.Env[np.ndarray, np.ndarray]):
    """Every step sleeps to its due time, so that late wake-ups do not add up."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self._left, self._due = 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._left, self._due = STEPS, time.perf_counter()
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        self._due += STEP_SECONDS
        time.sleep(max(0.0, self._due - time.perf_counter()))
        reward = -abs(float(action[0]) - 0.5)
        return self._seen(), reward, self._left == 0, False, {}

    def _seen(self) -> np.ndarray:
        return self.np_random.standard_normal(SIZE).astype(np.float32)
