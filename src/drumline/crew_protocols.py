"""Long-lived roles (executors, actors) and how they meet: the crew's side of `protocols`."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from drumline.protocols import Probe
from drumline.types import ProcessActivity, Span


class Exchange(Protocol):
    """Words per environment and a doorbell per role; moves indices and never knows their meaning.

    A *step* here is a step of one environment, counted from the start of the run.
    """

    state: np.ndarray
    version: np.ndarray
    finished: np.ndarray

    @property
    def released(self) -> int:
        """The newest interval that every environment may begin."""
        ...

    def may_begin(self, environments: np.ndarray, interval: int) -> np.ndarray:
        """Return for each of these environments whether `interval` is released."""
        ...

    def request(self, environments: np.ndarray, versions: np.ndarray) -> None:
        """Ask the actors of these environments (ascending) to serve them with these versions."""
        ...

    def serve(self, environments: np.ndarray) -> None:
        """Say that the requests of these environments (ascending) are answered."""
        ...

    def finish(self, environments: "np.ndarray | slice", steps: "np.ndarray | int") -> None:
        """Say how many steps of these environments are stored."""
        ...

    def tell_driver(self) -> None:
        """Wake the driver: an interval of some environments is full."""
        ...


class RoleContext(Protocol):
    """What a crew hands to a long-lived role."""

    index: int
    arrays: Mapping[str, np.ndarray]
    """The memory that all roles of a run share."""
    exchange: Exchange
    start: Any
    """Where this role takes up its work: what the driver's `start_of(role, index)` returned."""
    probe: Probe

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place; the latest three are kept."""
        ...

    def newest(self) -> int:
        """Return the newest published version."""
        ...

    def copy_of_newest(self) -> tuple[int, Mapping[str, np.ndarray]]:
        """Return the newest version and copies of its arrays, whole even if it is replaced."""
        ...

    def progress(self, amount: int) -> None:
        """Add to the progress counter; a role that is busy while it stands still is hung."""
        ...

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the role ends, latest first; a killed one calls nothing."""
        ...


class Role(Protocol):
    """One long-lived part of a run, such as an executor or an actor."""

    def advance(self) -> bool:
        """Do what can be done without waiting; returns whether anything was done."""
        ...

    def due_seconds(self) -> float | None:
        """Return after how long this role can go on by itself; None if only a bell can help."""
        ...


RoleFactory = Callable[[RoleContext], Role]
"""Builds a role inside its process; must pickle by reference (no callable of `__main__`)."""


class Crew(Protocol):
    """The long-lived roles of a run. One that dies is replaced and told where to take up its work.

    A role's exception reaches the caller of `wait` as `WorkerError`; a role that dies or hangs
    three times at the same place raises `RoleKilled`.
    """

    exchange: Any
    """The driver's side of the exchange."""

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make `version` visible to every role; the latest three are kept."""
        ...

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place."""
        ...

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Return True once `until()` holds, or False after `timeout` seconds."""
        ...

    def look(self) -> None:
        """Notice deaths without waiting; to be called now and then by a busy driver."""
        ...

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked in this crew, dead ones included."""
        ...

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work of every role, oldest first."""
        ...

    def close(self) -> None:
        """End every process and free all shared memory; may be called twice."""
        ...
