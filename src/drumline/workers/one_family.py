"""OneFamily: a factory for a process that needs one of EnvPool's families alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.envpool_package import family_of, import_family


@dataclass(frozen=True)
class OneFamily:
    """The factory of a worker or of a role, which is built sooner without the other families."""

    factory: Callable[[Any], Any]
    family: str

    def __call__(self, context: Any) -> Any:
        """Import the family, and build the worker or the role."""
        import_family(self.family)
        return self.factory(context)


def for_own_process(
    factory: Callable[[Any], Any], environment: EnvironmentSpec | None
) -> Callable[[Any], Any]:
    """Return a factory for processes that make this environment and no other."""
    if environment is None or environment.engine != "envpool":
        return factory
    return OneFamily(factory, family_of(environment.id))
