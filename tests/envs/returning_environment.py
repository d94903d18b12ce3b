"""Environments that return what they are told to; children import this module too."""

from typing import Any

import gymnasium
import numpy as np

SEEN = np.zeros(3, np.float32)


class Returning(gymnasium.Env[Any, Any]):
    """Returns what it is told to, from its reset or its third step on."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, reset: Any = (SEEN, {}), step: Any = (SEEN, 1.0, False, False, {})):
        self._returned = reset, step
        self._made = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Return the given value."""
        super().reset(seed=seed)
        self._made = 0
        return self._returned[0]

    def step(self, action: Any) -> Any:
        """Return good values, and the given one from the third step on."""
        self._made += 1
        good = (SEEN, 1.0, self._made == 6, False, {})
        return self._returned[1] if self._made == 3 else good


def bad_reset() -> Returning:
    """An environment whose reset returns the observation alone."""
    return Returning(reset=SEEN)


def bad_step() -> Returning:
    """An environment in Gym's old form."""
    return Returning(step=(SEEN, 1.0, False, {}))
