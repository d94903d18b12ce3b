"""Repeating each action: rewards add up, and the last observation is returned."""

from typing import Any

from drumline.envs.interface import NO_NUMBER


class FrameSkip:
    """Repeat each action `count` times, or until the episode ends or `limit` frames are made.

    If `count` does not divide the time limit, the last decision has fewer frames.
    """

    def __init__(self, environment: Any, count: int, limit: int):
        self._environment = environment
        self._count = count
        self._limit = limit
        self.frames = 0
        """Frames of this episode so far."""
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        self.frames = 0
        return self._environment.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step up to `count` times with one action."""
        count = min(self._count, self._limit - self.frames) if self._limit else self._count
        total = -0.0  # the sum of one reward is that reward, -0.0 too
        while True:
            observation, reward, terminated, truncated, info = self._environment.step(action)
            self.frames += 1
            count -= 1
            try:
                total += float(reward)
            except NO_NUMBER:  # the caller, which knows the place, refuses it
                return observation, reward, terminated, truncated, info
            if terminated or truncated or count < 1:
                return observation, total, terminated, truncated, info

    def info_of_last_step(self) -> dict[str, Any]:
        """Return the `info` of the last step of an environment that makes it only if asked."""
        asked = getattr(type(self._environment), "info_of_last_step", None)
        return {} if asked is None else asked(self._environment)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)
