"""An environment that numbers its steps, so that what is lost or read twice shows."""

import gymnasium
import numpy as np


class Numbered(gymnasium.Env):
    """Observation = (number, steps made so far), which goes on through episodes of seven."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.who = -1
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.who < 0:
            self.who = int(self.np_random.integers(2**20))
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, self.steps % 7 == 0, False, {}

    def observe(self):
        return np.array([self.who, self.steps], np.float64)
