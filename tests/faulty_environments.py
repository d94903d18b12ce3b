"""Environments with one fault each, for `drumline check-env`; a worker imports this module too."""

import ctypes
import os
import random
import threading
import time
from typing import Any

import gymnasium
import numpy as np


class Good(gymnasium.Env[Any, Any]):
    """A point that actions move; its episodes last 12 steps."""

    observation_space: Any = gymnasium.spaces.Box(-10.0, 10.0, (2,))
    action_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Draw a place."""
        super().reset(seed=seed)
        self.steps = 0
        self.place = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.place.copy(), {}

    def step(self, action: Any) -> Any:
        """Move."""
        self.steps += 1
        self.place = np.clip(self.place + 0.1 * action, -10.0, 10.0).astype(np.float32)
        return self.place.copy(), float(self.place.sum()), self.steps == 12, False, {}


def normalized(**options: Any) -> Any:
    """Normalises observations and rewards as Gymnasium's wrappers do."""
    observed = gymnasium.wrappers.NormalizeObservation(Good(**options))
    return gymnasium.wrappers.NormalizeReward(observed)


def fixed(**options: Any) -> Any:
    """Remembers, below wrappers whose statistics are fixed."""
    observed = gymnasium.wrappers.NormalizeObservation(Remembers(**options))
    rewarded = gymnasium.wrappers.NormalizeReward(observed)
    observed.update_running_mean = rewarded.update_running_mean = False
    return rewarded


class Remembers(Good):
    """Rewards grow with every episode."""

    episodes = 0

    def reset(self, **named: Any) -> Any:
        """Count."""
        self.episodes += 1
        return super().reset(**named)

    def step(self, action: Any) -> Any:
        """Add the count."""
        observation, reward, *rest = super().step(action)
        return (observation, reward + self.episodes, *rest)


class DrawsNumPy(Good):
    """Rewards have noise of NumPy's global generator."""

    def step(self, action: Any) -> Any:
        """Add noise."""
        observation, reward, *rest = super().step(action)
        return (observation, reward + np.random.normal(), *rest)


class DrawsPython(Good):
    """Begins where Python's global generator says."""

    def reset(self, **named: Any) -> Any:
        """Draw a place."""
        _, info = super().reset(**named)
        self.place = np.array([random.random(), 0.0], np.float32)
        return self.place.copy(), info


class Shares(Good):
    """All instances move one point."""

    shared: Any = np.zeros(2, np.float32)

    def reset(self, **named: Any) -> Any:
        """Put the one point to its place."""
        observation, info = super().reset(**named)
        Shares.shared = observation
        return observation.copy(), info

    def step(self, action: Any) -> Any:
        """Move the one point."""
        _, reward, *rest = super().step(action)
        Shares.shared = Shares.shared + 0.1 * action.astype(np.float32)
        return (np.clip(Shares.shared, -10.0, 10.0), reward, *rest)


class KnowsItsProcess(Good):
    """Rewards depend on the process."""

    def step(self, action: Any) -> Any:
        """Add the process's number."""
        observation, _, *rest = super().step(action)
        return (observation, float(os.getpid()), *rest)


class NoSeed(Good):
    """Its reset takes no seed."""

    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin."""
        return super().reset()


class NoSpace(gymnasium.Env[Any, Any]):
    """Says nothing about its observations."""

    action_space: Any = gymnasium.spaces.Discrete(2)


class OtherSpace(Good):
    """Its space is of another package."""

    observation_space = threading.local()


class Raises(Good):
    """Falls at its third step."""

    def step(self, action: Any) -> Any:
        """Raise."""
        if self.steps == 2:
            raise RuntimeError("the cart fell off the table")
        return super().step(action)


class Dies(Good):
    """Ends any process but the one that is named."""

    def step(self, action: Any) -> Any:
        """End the process."""
        if os.getpid() != int(os.environ["LIVES_IN"]):
            os._exit(7)
        return super().step(action)


class NaN(Good):
    """Its third observation is NaN."""

    def step(self, action: Any) -> Any:
        """Return NaN."""
        observation, *rest = super().step(action)
        return (observation * np.nan if self.steps == 3 else observation, *rest)


class Far(Good):
    """Its observations leave their space."""

    def step(self, action: Any) -> Any:
        """Return a far place."""
        observation, *rest = super().step(action)
        return (observation + 50.0, *rest)


class Endless(Good):
    """Never ends."""

    def step(self, action: Any) -> Any:
        """Go on."""
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, False, truncated, info


class Choices(Good):
    """Takes two choices at once."""

    action_space = gymnasium.spaces.MultiDiscrete([3, 3])


class Words(Good):
    """Takes words, which no method serves."""

    action_space = gymnasium.spaces.Text(3)


class Blind(Good):
    """Observations have no number."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (0,))


class Idle(Good):
    """Actions have no number."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (0,))


class Pictures(Good):
    """Sees black pictures."""

    observation_space = gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8)

    def reset(self, **named: Any) -> Any:
        """Return a picture."""
        return np.zeros((32, 32, 3), np.uint8), super().reset(**named)[1]

    def step(self, action: Any) -> Any:
        """Return a picture."""
        return (np.zeros((32, 32, 3), np.uint8), *super().step(action)[1:])


class Sleeps(Good):
    """Waits in every step."""

    def step(self, action: Any) -> Any:
        """Wait."""
        time.sleep(0.002)
        return super().step(action)


class SlowReset(Good):
    """Takes longer to reset than the timing of its steps is to take."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Wait."""
        time.sleep(0.06)
        return super().reset(seed=seed)


class Talks(Good):
    """Prints a line when it is made, and at every step."""

    def __init__(self):
        print("made a point")

    def step(self, action: Any) -> Any:
        """Print."""
        returned = super().step(action)
        print("step", self.steps)
        return returned


class TalksInC(Talks):
    """Prints as a simulator written in C does: past Python, through the C library's buffer."""

    def step(self, action: Any) -> Any:
        """Print."""
        ctypes.CDLL(None).puts(b"a word from C")
        os.write(1, b"a word of its own\n")
        return super().step(action)


class TalksAndFails(Good):
    """Prints why it cannot be made."""

    def __init__(self):
        print("no licence in /opt")
        raise OSError("not licensed")


class Finite(Good):
    """Has so many steps in its life; no episode ends before."""

    def __init__(self, limit: int):
        self.left = limit

    def step(self, action: Any) -> Any:
        """Count the steps of all episodes."""
        self.left -= 1
        if self.left < 0:
            raise IndexError("a step too many")
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}
