"""Description of an environment, and the form that every made one has."""

import logging
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from drumline.errors import words_of

_LOGGER = logging.getLogger("drumline")

FLATTEN = "--flatten-observations"
INSTALL_ENVPOOL = "pip install envpool (it exists for Linux)"


class EnvironmentProblem(ValueError):
    """An environment that cannot be made or used: one sentence, with the flag to change."""


class LateFault(EnvironmentProblem):
    """An observation or reward of no use, in an episode after the first, whose steps are checked.

    The run has failed midway, and goes on once the environment is mended.
    """


@dataclass(frozen=True)
class EnvironmentSpec:
    """Picklable description of an environment, the same in any process."""

    id: str
    engine: Literal["gymnasium", "envpool"] = "gymnasium"
    frame_skip: int = 1
    """Repetitions of each action; rewards add up, and `env_steps` counts decisions."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the constructor; `max_episode_steps` replaces the environment's time limit."""
    flatten: bool = False
    """Whether observations in parts become one vector (`--flatten-observations`)."""


def refuse_flatten(spec: EnvironmentSpec) -> None:
    """Raise EnvironmentProblem if observations of an environment of EnvPool's should be flat."""
    if spec.flatten:
        raise EnvironmentProblem(
            f"{FLATTEN} goes with --engine gymnasium: EnvPool's {spec.id} cannot be wrapped"
        )


class Environment(Protocol):
    """Interface of the episode loop: Gymnasium's single environment, without its time limit."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Start an episode that is a function of the seed."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Return observation, reward, terminated, truncated, info."""
        ...

    def close(self) -> None:
        """Close the environment."""
        ...


@dataclass(frozen=True)
class MadeEnvironment:
    """An environment and its own time limit in agent decisions (0: none known)."""

    environment: Environment
    limit: int
    stack: int = 1
    """Frames stacked along an observation's first axis, oldest first; 1: no stack."""
    wrapped_limit: int = 0
    """Limit that a TimeLimit of the user's factory counts itself; 0: there is none."""

    def close(self) -> None:
        """Close the environment; its work is done, so an exception is only logged."""
        try:
            self.environment.close()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a simulator may raise anything
            _LOGGER.warning("an environment did not close: %s", words_of(error))


Engine = Literal["gymnasium", "envpool"]
