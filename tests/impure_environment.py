"""Environments that misbehave in named ways, importable by worker processes."""

import gymnasium
import numpy as np


class Counting(gymnasium.Env):
    """Observation = (step, seed-drawn constant); ends after five steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.constant = float(self.np_random.standard_normal())
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        reward = float(action[0]) * self.constant
        return self.observe(), reward, self.steps == 5, False, {}

    def observe(self):
        return np.array([self.steps, self.constant], np.float32)


class HiddenState(Counting):
    """Remembers how many episodes it has run: `reset(seed=…)` does not reset it."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return super().reset(seed=seed)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward + self.episodes, terminated, truncated, info


class NaNObservation(Counting):
    """Its third observation is NaN."""

    def observe(self):
        return np.full(2, np.nan, np.float32) if self.steps == 3 else super().observe()


class NaNReward(Counting):
    """Its third reward is NaN."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float("nan") if self.steps == 3 else reward, terminated, truncated, info


class Raising(Counting):
    """Its constructor raises."""

    def __init__(self):
        raise OSError("no licence file")


class DictObservations(Counting):
    """Dict observations, which no policy here can serve."""

    observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(0, 1, (1,), np.float32)})
