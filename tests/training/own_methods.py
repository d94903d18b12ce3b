"""Methods from outside the package, one of each kind of recipe, for tests of `doctor`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from drumline.protocols import Learner
from drumline.recipes import actor_critic
from drumline.recipes.aes import AES
from drumline.recipes.cem import CEM
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.training.rotation_run import RotationRecipe


@dataclass(frozen=True)
class Generations(CEM):
    """A generational method."""


@dataclass(frozen=True)
class Stream(TD3):
    """A method of one environment and one learner."""


@dataclass(frozen=True)
class Events(AES):
    """A steady-state method."""


@dataclass(frozen=True)
class Rotation(PPO):
    """An actor-critic method with a learner of its own."""

    def build(self, layout: Any) -> RotationRecipe:
        """Put the parts together."""
        return replace(super().build(layout), learner=_learner)


def _learner(parts: Any, pause: Callable[[], None], threads: int) -> Learner:
    return actor_critic.make_learner(parts, pause, threads)


@dataclass(frozen=True)
class Deaf(PPO):
    """A method whose learner knows nothing of the shards in other processes."""

    def build(self, layout: Any) -> RotationRecipe:
        """Put the parts together."""
        return replace(super().build(layout), learner=_deaf)


def _deaf(parts: Any, pause: Callable[[], None], threads: int) -> Learner:
    return actor_critic.make_learner(replace(parts, shards=None), pause, threads)


@dataclass(frozen=True)
class Alone(PPO):
    """A method that knows nothing of groups."""

    def build(self, layout: Any) -> RotationRecipe:
        """Put the parts together."""
        return super().build(replace(layout, nodes=1))


@dataclass(frozen=True)
class Unheard(CEM):
    """A method with a kind of recipe that Drumline has not."""

    def build(self, layout: Any) -> Any:
        """Return a recipe that can be opened, and no more."""
        return _Recipe()


class _Recipe:
    def opened(self, request: Any) -> Any:
        """Return no run."""
