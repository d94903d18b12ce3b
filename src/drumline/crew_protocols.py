"""Interfaces of long-lived roles (executors, actors) and their exchange: the crew's `protocols`."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from drumline.protocols import Probe
from drumline.types import ProcessActivity, Span


class Exchange(Protocol):
    """Shared numbers per environment and a doorbell per role; it moves indices, not data.

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
        """Mark the requests of these environments (ascending) as answered."""
        ...

    def finish(self, environments: "np.ndarray | slice", steps: "np.ndarray | int") -> None:
        """Set the numbers of stored steps of these environments."""
        ...

    def tell_driver(self) -> None:
        """Wake the driver, because an interval of some environments is full."""
        ...


class RoleContext(Protocol):
    """A crew's services to a long-lived role."""

    index: int
    arrays: Mapping[str, np.ndarray]
    """The memory that all roles of a run share."""
    exchange: Exchange
    start: Any
    """Start of this role's work: the result of the driver's `start_of(role, index)`."""
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

    def alive(self) -> None:
        """Count a sign of life that is no progress of the run, such as an environment made."""
        ...

    def replaying(self, replayed: int, total: int) -> None:
        """Note that `replayed` of `total` env steps of the journal were made again."""
        ...

    def building(self) -> AbstractContextManager[None]:
        """Hold the role to the time limit of creations while it makes environments anew."""
        ...

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the role ends, latest first; a killed role calls none."""
        ...


class Role(Protocol):
    """One long-lived part of a run, such as an executor or an actor."""

    def advance(self) -> bool:
        """Do all work that needs no wait; returns whether there was any."""
        ...

    def due_seconds(self) -> float | None:
        """Return the seconds until this role can go on; None: only a doorbell wakes it."""
        ...


RoleFactory = Callable[[RoleContext], Role]
"""Builds a role inside its process; must pickle by reference (no callable of `__main__`)."""


class Crew(Protocol):
    """The long-lived roles of a run. A role that dies is replaced, and its replacement gets the
    start of its work.

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
        """Notice deaths without waiting; a busy driver calls it now and then."""
        ...

    def restoring(self) -> tuple[int, int]:
        """Return the env steps replayed, and those to replay, of roles that are not yet built."""
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
