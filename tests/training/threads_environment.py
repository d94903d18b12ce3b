"""An environment that pays the number of threads that torch has in its step."""

from typing import Any

import gymnasium
import numpy as np
import torch

STEPS = 5


class Threads(gymnasium.Env):
    """Episodes of five steps: one thread in each makes a return of 5."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self):
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return np.full(2, 0.1 * torch.get_num_threads(), np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        observation = np.full(2, 0.1 * self._step, np.float32)
        threads = torch.get_num_threads()
        return observation, float(threads), self._step == STEPS, False, {}
