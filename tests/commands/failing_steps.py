"""An environment whose third step raises what the variable FAILING_STEPS names, where it is set."""

import os
from typing import Any

import gymnasium
import numpy as np

ERRORS = {
    "pipe": lambda: BrokenPipeError("the simulator is gone"),
    "exit": lambda: SystemExit(0),
    "value": lambda: ValueError("could not broadcast"),
}


class Failing(gymnasium.Env[np.ndarray, int]):
    """Episodes of five steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        """Make a step, or fail."""
        self._steps += 1
        error = ERRORS.get(os.environ.get("FAILING_STEPS", ""))
        if error is not None and self._steps == 3:
            raise error()
        return np.zeros(2, np.float32), 1.0, self._steps == 5, False, {}


class Moving(Failing):
    """Goes to the directory MOVED_TO in its first step."""

    def step(self, action: int) -> Any:
        """Go, and make a step."""
        os.chdir(os.environ["MOVED_TO"])
        return super().step(action)


class Leaving(Failing):
    """Ends the program when it is closed, where FAILING_STEPS is `close`."""

    def close(self) -> None:
        """Close the environment, and the program."""
        if os.environ.get("FAILING_STEPS") == "close":
            raise SystemExit(0)


if os.environ.get("MOVED_AT_IMPORT"):
    os.chdir(os.environ["MOVED_AT_IMPORT"])
