"""Environments that show what lanes do to actions, ends and limits."""

import time

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation


class Drifting(gymnasium.Env):
    """Observation = (step, sum of actions, seed-drawn noise); ends by action, as it is told.

    Action 1 terminates, 2 truncates, 3 does both.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self):
        self.observation = np.zeros(3)  # handed out and overwritten, as some environments do

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.total = 0, 0
        return self.observe(), {}

    def step(self, action):
        assert type(action) is int
        self.steps += 1
        self.total += action
        return self.observe(), self.total / 7, action in (1, 3), action in (2, 3), {}

    def observe(self):
        self.observation[:] = self.steps, self.total, self.np_random.standard_normal()
        return self.observation


class Echo(gymnasium.Env):
    """Observes the action that it was given."""

    def __init__(self, action_space):
        self.action_space = action_space
        shape = action_space.shape or (1,)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float64)

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.reshape(np.asarray(action, np.float64), self.observation_space.shape), 0, 0, 0, {}


class Wide(gymnasium.Env):
    """Observations of 83 KiB, and no end of its own."""

    observation_space = gymnasium.spaces.Box(-1, 1, (21_168,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(21_168, np.float32), {}

    def step(self, action):
        return np.zeros(21_168, np.float32), float(action), False, False, {}


def wide_and_short():
    return gymnasium.wrappers.TimeLimit(Wide(), 4)


def continuous_echo():
    low, high = np.array([-1, -2], np.float32), np.array([1, 0.5], np.float32)
    return Echo(gymnasium.spaces.Box(low, high))


def shifted_echo():
    return Echo(gymnasium.spaces.Discrete(3, start=5))


class FiveSteps(gymnasium.Env):
    """Episodes of five steps that draw their observations, and take only actions of their space."""

    def __init__(self, observation_space, action_space):
        self.observation_space = observation_space
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 5, False, {}


class CutAtOnce(FiveSteps):
    """Cuts every episode after one step, with no limit in its spec."""

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, False, True, {}


def cut_at_once():
    spaces = gymnasium.spaces
    return CutAtOnce(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-1.0, 1.0, (1,)))


def byte_rows():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(0, 255, (7,), np.uint8), spaces.Discrete(3))


def byte_grids():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(0, 255, (5, 4), np.uint8), spaces.Discrete(3))


def single_numbers():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (), np.float32), spaces.Discrete(3))


def without_observations():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (0,), np.float32), spaces.Box(-1.0, 1.0, (2,)))


def without_actions():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-1.0, 1.0, (0,)))


def whole_numbers():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-9, 9, (3,), np.int64), spaces.Discrete(3))


def half_precision():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (3,), np.float16), spaces.Discrete(3))


def table():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (2, 3), np.float32), spaces.Box(-1.0, 1.0, (2,)))


def one_table():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (1, 2, 3), np.float32), spaces.Box(-1.0, 1.0, (2,)))


class Bounded(gymnasium.spaces.Box):
    """A kind of Box of one's own."""


class Moves(gymnasium.spaces.Discrete):
    """A kind of Discrete of one's own."""


class Pairs(gymnasium.spaces.MultiDiscrete):
    """A kind of MultiDiscrete of one's own."""


def own_choices():
    return FiveSteps(Bounded(-1.0, 1.0, (3,), np.float32), Moves(3, start=2))


def own_pairs():
    return FiveSteps(Bounded(-1.0, 1.0, (3,), np.float32), Pairs([3, 4], start=[1, 5]))


def small_pairs():
    pairs = gymnasium.spaces.MultiDiscrete([3, 4], dtype=np.int8, start=[1, 5])
    return FiveSteps(Bounded(-1.0, 1.0, (3,), np.float32), pairs)


def cubes():
    spaces = gymnasium.spaces
    return FiveSteps(spaces.Box(-1.0, 1.0, (2, 2, 2), np.float32), spaces.Discrete(3))


def own_forces():
    return FiveSteps(Bounded(-1.0, 1.0, (3,), np.float32), Bounded(-1.0, 1.0, (2,)))


def half_constant():
    spaces = gymnasium.spaces
    seen = spaces.Box(np.array([-1.0, 3.0], np.float32), np.array([1.0, 3.0], np.float32))
    return FiveSteps(seen, spaces.Discrete(3))


def shifted_choices():
    spaces = gymnasium.spaces
    actions = spaces.MultiDiscrete([3, 4], start=[1, 5])
    return FiveSteps(spaces.Box(-1.0, 1.0, (2,), np.float32), actions)


def narrow_doubles():
    spaces = gymnasium.spaces
    actions = spaces.Box(-0.1, 0.1, (2,), np.float64)
    return FiveSteps(spaces.Box(-1.0, 1.0, (2,), np.float32), actions)


def several_echo():
    return Echo(gymnasium.spaces.MultiDiscrete([3, 4]))


def dictionary_actions():
    environment = Drifting()
    environment.action_space = gymnasium.spaces.Dict({"move": gymnasium.spaces.Discrete(2)})
    return environment


def dictionary_observations():
    environment = Drifting()
    environment.observation_space = gymnasium.spaces.Dict({"here": gymnasium.spaces.Discrete(2)})
    return environment


def drifting():
    return Drifting()


class Forgetful(Drifting):
    """Ends earlier the more often it was reset in this process, whatever its seed."""

    resets = 0

    def reset(self, *, seed=None, options=None):
        Forgetful.resets += 1
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or self.steps + self.resets >= 6, truncated, info


def forgetful():
    return Forgetful()


class Counting(gymnasium.Env):
    """Observation = (step, fold of the actions, noise); episodes of drawn lengths end either way.

    `raises_at` and `hangs_at` are steps of an episode at which it does that. The first step of each
    environment takes `compiles_seconds`, as one that compiles.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, continuous=False, longest=20, raises_at=0, hangs_at=0, compiles_seconds=0.0):
        self.compiles_seconds = compiles_seconds
        box = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = box if continuous else gymnasium.spaces.Discrete(3)
        self.longest, self.raises_at, self.hangs_at = longest, raises_at, hangs_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.total = 0, 0.0
        self.length = int(self.np_random.integers(1, self.longest + 1))
        self.terminates = bool(self.np_random.integers(2))
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.raises_at:
            raise ArithmeticError(f"cannot make step {self.steps}")
        time.sleep(self.compiles_seconds)
        self.compiles_seconds = 0.0
        while self.steps == self.hangs_at:
            time.sleep(3600.0)
        self.total = 0.5 * self.total + float(np.sum(action))
        over = self.steps == self.length
        return self.observe(), self.total, over and self.terminates, over, {}

    def observe(self):
        return np.array([self.steps, self.total, self.np_random.standard_normal()], np.float32)


def counting(**options):
    return Counting(**options)


class FilmedCounting(gymnasium.Env):
    """`Counting`, as frames of bytes `[2, 3]`."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 3), np.uint8)

    def __init__(self):
        self.counting = Counting(longest=7)
        self.action_space = self.counting.action_space

    def reset(self, *, seed=None, options=None):
        return self.film(self.counting.reset(seed=seed)[0]), {}

    def step(self, action):
        observation, *rest = self.counting.step(action)
        return self.film(observation), *rest

    def film(self, observation):
        steps, total, noise = observation.tolist()
        numbers = [steps, 10 * total, 100 * noise, steps % 3, 7 * total, 9 * noise]
        return np.array(numbers).astype(np.int64).astype(np.uint8).reshape(2, 3)


def filmed():
    return FrameStackObservation(FilmedCounting(), 3)


class NewestFirst(FrameStackObservation):
    """Frames stacked in an order of its own, as a subclass may."""

    def __init__(self):
        super().__init__(FilmedCounting(), 3)

    def reset(self, *, seed=None, options=None):
        stacked, info = super().reset(seed=seed, options=options)
        return stacked[::-1], info

    def step(self, action):
        stacked, *rest = super().step(action)
        return stacked[::-1], *rest
