"""Messages between the driver and a child process. Pickled, so apart from `child.py`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from drumline.protocols import PublishedLayout
from drumline.runtime.records import Records


class ChildSpec(NamedTuple):
    """Everything a child needs to become a worker; the same for every child of a pool."""

    search_path: list[str]
    size: int
    published: PublishedLayout
    versions: int
    """Number of versions of the published arrays that are kept."""
    board_fd: int
    shared: PublishedLayout | None
    shared_fd: int | None
    factory: bytes
    """Pickled on its own, because it can be read only after the search path is set."""
    probe_factory: bytes | None
    numpy_answer: str
    """NumPy's known answer, which the child must give; empty: any."""


class Lease(NamedTuple):
    """Tasks for about 50 ms, answered in one message. A serial names a task within its pool."""

    serials: tuple[int, ...]
    tasks: tuple[Any, ...]


class Failure(NamedTuple):
    """An exception in a child process."""

    error: str
    traceback: str
    exception: bytes | None
    """The exception itself, if it pickles."""


class Ready(NamedTuple):
    """The worker is built."""

    cpu_seconds: float
    at_once: int = 1
    """Tasks that it runs side by side where a lease has as many."""


class Reached(NamedTuple):
    """The running task has progressed to the mark that the driver had set."""

    mark: int


class Unbuilt(NamedTuple):
    """The worker could not be built."""

    failure: Failure


class Answer(NamedTuple):
    """The results of a lease in its order: pickled when the task ended, or themselves, where tasks
    ran side by side; None if skipped.

    A failure belongs to the task after the last result; the tasks after that one were not run.
    """

    start: float
    end: float
    results: Sequence[Any] | Records
    """Never bytes, but for a pickled result."""
    failure: Failure | None


class RoleSpec(NamedTuple):
    """Everything a child needs to become a long-lived role."""

    search_path: list[str]
    role: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int
    """Index of its own status row."""
    layout: PublishedLayout
    memory_fd: int
    driver: tuple[int, int]
    """Descriptors of each doorbell: for reading, for writing."""
    executors: tuple[tuple[int, int], ...]
    actors: tuple[tuple[int, int], ...]
    ownership: tuple[tuple[int, ...], ...]
    published: dict[str, tuple[tuple[int, ...], str]]
    factory: bytes
    probe_factory: bytes | None
    numpy_answer: str
    """NumPy's known answer in the driver, which the role must give."""
    beat_seconds: float
    """Longest time for which it waits for its bell without a sign of life."""
    start: bytes
