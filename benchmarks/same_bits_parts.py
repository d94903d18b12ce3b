"""Parts of a user's own for the runs of same_bits.py: an environment of pictures, networks, search.

Both commits import them from here, so none of them uses drumline.
"""

from typing import Any

import gymnasium
import numpy as np
import torch


class Pictures(gymnasium.Env[np.ndarray, int]):
    """A dot on a stack of four pictures; the right one of three actions follows it."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self) -> None:
        self._place = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        """Begin with the dot at a place of the seed."""
        super().reset(seed=seed)
        self._place, self._steps = int(self.np_random.integers(84)), 0
        return self._picture(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, Any]:
        """Pay 1 for the action of the dot's third; every third episode ends by a time limit."""
        reward = float(action == self._place // 28) + self._place / 840.0
        self._place, self._steps = (self._place * 5 + 7 * int(action) + 3) % 84, self._steps + 1
        ended = self._steps >= 6 + self._place % 5
        limited = ended and self._place % 3 == 0
        return self._picture(), reward, ended and not limited, limited, {}

    def _picture(self) -> np.ndarray:
        picture = np.zeros((4, 84, 84), np.uint8)
        for age in range(4):
            picture[age, self._place // 2 : self._place // 2 + 8, self._place] = 255 - 40 * age
        picture[0, self._steps] = 90
        return picture


def pictures() -> Pictures:
    """Return the environment, for `--env` in the form module:factory."""
    return Pictures()


class Searched(torch.nn.Sequential):
    """A policy for `--policy`."""

    def __init__(self, inputs: int, outputs: int):
        layers = (torch.nn.Linear(inputs, 6), torch.nn.ReLU(), torch.nn.Linear(6, outputs))
        super().__init__(*layers)


class ActorCritic(torch.nn.Module):
    """A network for `--network`."""

    def __init__(self, observation_shape: tuple[int, ...], outputs: int):
        super().__init__()
        self._trunk = torch.nn.Linear(observation_shape[0], 8)
        self._outputs, self._value = torch.nn.Linear(8, outputs), torch.nn.Linear(8, 1)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs `[N, A]` and values `[N]`."""
        features = torch.tanh(self._trunk(observations))
        return self._outputs(features), self._value(features).squeeze(-1)


class HillClimber:
    """A search for `--strategy`: the fittest vector so far with noise."""

    def __init__(self, start: np.ndarray, seed: int):
        self._best, self._fitness = start.astype(np.float64), -np.inf
        self._rng = np.random.default_rng(seed)

    def ask(self) -> np.ndarray:
        """Return the fittest vector with noise."""
        return self._best + 0.1 * self._rng.standard_normal(self._best.size)

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        """Keep the vector if it is the fittest."""
        if fitness > self._fitness:
            self._best, self._fitness = np.array(vector, np.float64), fitness
