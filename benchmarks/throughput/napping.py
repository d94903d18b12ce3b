"""Environments that sleep: episodes of constant, Gamma(4) or exponential length, 10 ms a step.

With them two cores are enough for any number of logical workers. Lengths follow from the seed of
the reset alone, and their mean is 40.
"""

import math
import time
from typing import Any

import gymnasium
import numpy as np

MEAN_STEPS, STEP_SECONDS = 40, 10e-3
SHAPES = {"constant": math.inf, "gamma4": 4.0, "exponential": 1.0}
"""Of the Gamma law of lengths."""


class Napping(gymnasium.Env[np.ndarray, np.ndarray]):
    """Every step sleeps to its due time, so that late wake-ups do not add up."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, shape: float):
        self._shape = shape
        self._left, self._due = 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        length = float(MEAN_STEPS)
        if math.isfinite(self._shape):
            length = self.np_random.gamma(self._shape, MEAN_STEPS / self._shape)
        self._left, self._due = max(1, round(length)), time.perf_counter()
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        self._due += STEP_SECONDS
        time.sleep(max(0.0, self._due - time.perf_counter()))
        return np.zeros(2, np.float32), 1.0, self._left == 0, False, {}


def constant() -> Napping:
    return Napping(SHAPES["constant"])


def gamma4() -> Napping:
    return Napping(SHAPES["gamma4"])


def exponential() -> Napping:
    return Napping(SHAPES["exponential"])
