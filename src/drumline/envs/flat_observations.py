"""Observations in parts (Dict, Tuple, Discrete …) as one vector, as Gymnasium flattens them."""

from typing import Any

import gymnasium

from drumline.envs.environment import FLATTEN, Environment, EnvironmentProblem
from drumline.envs.interface import space_of
from drumline.errors import words_of


class FlatObservations(gymnasium.wrappers.FlattenObservation):
    """Gymnasium's FlattenObservation, whose errors name the environment."""

    def __init__(self, environment: Any, env_id: str):
        super().__init__(environment)
        self._id = env_id
        self._seen = 0

    def observation(self, observation: Any) -> Any:
        """Return the parts of an observation in one vector, in the order of their space."""
        try:
            return super().observation(observation)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            said = " ".join(words_of(error).split())
            raise EnvironmentProblem(
                f"{self._id}: an observation cannot be flattened ({said}): it has other parts "
                f"than its observation_space {self.env.observation_space}"
            ) from error


def flattened(environment: Any, env_id: str) -> Environment:
    """Return the environment with flat observations; itself if they are flat already."""
    space = space_of(environment, env_id, "observation_space")
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return environment
    if not space.is_np_flattenable:
        raise EnvironmentProblem(
            f"{env_id} has {type(space).__name__} observations ({space}), whose length changes, "
            f"so {FLATTEN} makes no vector of them: convert them in a wrapper and name your "
            "factory as module:factory"
        )
    return FlatObservations(environment, env_id)
