"""An environment whose fault comes after its first episode, which is checked step by step."""

from typing import Any

import gymnasium
import numpy as np

GOOD = np.ones(3, np.float32)
OBSERVATIONS: dict[str, tuple[Any, str]] = {
    "short": (GOOD[:1], r"an array of shape \[1\] in .*, but the observation_space has \[3\]"),
    "long": (np.ones(6, np.float32), r"an array of shape \[6\] in .*observation_space has \[3\]"),
    "none": (None, "a NoneType in .*"),
    "text": (np.array(["a", "b", "c"]), "an array of <U1 in .*, not of numbers"),
}
"""Name of a fault → third observation of the second episode, and words of the error."""
REWARDS: dict[str, tuple[Any, str]] = {
    "no reward": (None, "a NoneType in .*: return a number"),
    "text as reward": ("high", "a str in .*: return a number"),
    "complex reward": (1 + 2j, "a complex in .*: return a number"),
    "two rewards": (np.ones(2), r"an array of shape \[2\] in .*: return a number"),
    "huge reward": (10**400, "an int beyond the range of floats in .*"),
}
"""Name of a fault → reward of the second step of the second episode, and words of the error."""


class Late(gymnasium.Env[Any, Any]):
    """Has episodes of five steps, and in each but the first the fault of that name."""

    observation_space: Any = gymnasium.spaces.Box(-9.0, 9.0, (3,))
    action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, fault: str):
        self.fault = fault
        self.episodes = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        super().reset(seed=seed)
        self.episodes += 1
        self.steps = 0
        return GOOD.copy(), {}

    def step(self, action: Any) -> Any:
        """Count."""
        self.steps += 1
        observation, reward = GOOD.copy(), 1.0
        if self.episodes > 1 and self.steps == 2:
            observation, _ = OBSERVATIONS.get(self.fault, (observation, ""))
            reward, _ = REWARDS.get(self.fault, (reward, ""))
        return observation, reward, self.steps == 5, False, {}


class Rare(Late):
    """Has its fault in those episodes alone that begin with a large number."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        begun = super().reset(seed=seed)
        self.episodes = 2 if self.np_random.random() > 0.8 else 1
        return begun


def rarely_short() -> Rare:
    """An environment whose observations are rarely too short."""
    return Rare("short")


def rarely_unrewarded() -> Rare:
    """An environment that rarely gives no reward."""
    return Rare("no reward")
