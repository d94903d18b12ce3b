"""An environment of one's own: a point that walks to the origin.

drumline check-env my_envs:Reach
drumline train es my_envs:Reach
"""

from typing import Any

import gymnasium
import numpy as np

STEPS = 50


class Reach(gymnasium.Env[np.ndarray, np.ndarray]):
    """A point in the plane; the reward is minus its distance from the origin after each move."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Put the point to a place that follows from the seed."""
        super().reset(seed=seed)
        self._steps = 0
        self._point = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self._point.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move by a tenth of the action."""
        self._steps += 1
        moved = self._point + np.float32(0.1) * np.asarray(action, np.float32)
        self._point = np.clip(moved, -2.0, 2.0)
        reward = -float(np.linalg.norm(self._point))
        return self._point.copy(), reward, False, self._steps == STEPS, {}
