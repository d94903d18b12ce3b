"""CrewPlan: the roles of a crew, their numbers, and the memory that they share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.crew_protocols import RoleFactory
from drumline.protocols import PublishedLayout
from drumline.runtime.crews.exchange import Ownership, combined, exchange_layout
from drumline.runtime.crews.roles import rows_layout
from drumline.runtime.published import slots_layout


@dataclass(frozen=True)
class CrewPlan:
    """The roles of a run; the same plan makes an inline crew or a crew of processes."""

    ownership: Ownership
    executor: RoleFactory
    actor: RoleFactory | None
    storage: Mapping[str, tuple[tuple[int, ...], str]]
    """Arrays that the roles read and write besides the crew's own."""
    published: PublishedLayout
    start_of: Callable[[str, int], Any]
    """(role, index) → where the role takes up its work, at the start and after a replacement."""
    place_of: Callable[[str, int], str]
    """(role, index) → the role's position in words, for the message about repeated deaths."""

    @property
    def environments(self) -> int:
        """Return the end of the environments, which are numbered within the run."""
        return self.ownership.executors[-1]

    @property
    def roles(self) -> list[tuple[str, int]]:
        """Return every role in the order of the status rows."""
        executors = [("executor", k) for k in range(len(self.ownership.executors) - 1)]
        actors = [("actor", k) for k in range(len(self.ownership.actors) - 1)]
        return executors + actors

    def owned(self, role: str, index: int) -> slice:
        """Return the environments of one role."""
        bounds = self.ownership.executors if role == "executor" else self.ownership.actors
        return slice(bounds[index], bounds[index + 1])

    def factory(self, role: str) -> RoleFactory:
        """Return the factory of a role."""
        factory = self.executor if role == "executor" else self.actor
        assert factory is not None, "there is an actor only where the plan has a factory for it"
        return factory

    def layout(self) -> PublishedLayout:
        """Return the layout of all memory that the crew's roles share."""
        return combined(
            exchange_layout(self.environments),
            rows_layout(len(self.roles)),
            slots_layout(self.published).arrays,
            self.storage,
        )


class Strikes:
    """Deaths of each role during which none of its environments has advanced."""

    def __init__(self, finished: np.ndarray):
        self._finished = finished
        self._before: dict[tuple[str, int], np.ndarray] = {}
        self._causes: dict[tuple[str, int], list[str]] = {}

    def count(self, role: str, index: int, owned: slice, cause: str) -> list[str]:
        """Note a death; return the causes of all deaths at this position."""
        where, name = self._finished[owned].copy(), (role, index)
        before = self._before.get(name)
        if before is None or not np.array_equal(before, where):
            self._causes[name] = []
        self._before[name] = where
        self._causes[name].append(cause)
        return self._causes[name]
