"""Repeating each action: rewards add up, and the last observation is the one that is seen."""

from typing import Any


class FrameSkip:
    """Repeat each action `count` times, or until the episode ends."""

    def __init__(self, environment: Any, count: int):
        self._environment = environment
        self._count = count
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Start an episode."""
        return self._environment.reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step up to `count` times with one action."""
        observation, reward, terminated, truncated, info = self._environment.step(action)
        total = float(reward)
        for _ in range(self._count - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = self._environment.step(action)
            total += float(reward)
        return observation, total, terminated, truncated, info

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)
