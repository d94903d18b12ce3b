"""An environment that loads SciPy's BLAS in its first step, and pays the number of its threads."""

from typing import Any

import gymnasium
import numpy as np
from threadpoolctl import threadpool_info

STEPS = 3


class LateBlas(gymnasium.Env):
    """Episodes of three steps: one thread in each makes a return of 3."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self):
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        import scipy.linalg

        scipy.linalg.inv(np.eye(2))
        self._step += 1
        threads = max(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return np.zeros(2, np.float32), float(threads), self._step == STEPS, False, {}
