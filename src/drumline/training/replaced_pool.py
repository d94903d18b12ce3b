"""A pool whose processes are replaced before every published version.

For environments that never free their memory: it is freed with the process.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.protocols import Completed, WorkerPool
from drumline.types import ProcessActivity, Span


class ReplacedPool:
    """A `WorkerPool`; `make` makes the pool that works for one version."""

    def __init__(self, make: Callable[[], WorkerPool]):
        self._make = make
        self._pool = make()
        self.size = self._pool.size
        self._idle = True
        self._activity: list[ProcessActivity] = []
        self._spans: list[Span] = []

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks for the newest version."""
        self._idle = False
        self._pool.submit(tasks)

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return the finished tasks."""
        return self._pool.completed(timeout)

    def withdraw(self) -> None:
        """Call back all tasks."""
        self._pool.withdraw()

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish to processes that have run nothing; every task is back by then."""
        if not self._idle:
            self._pool.close()
            self._activity += self._pool.activity()
            self._spans += self._pool.timeline()
            self._pool = self._make()
            self._idle = True
        self._pool.publish(version, arrays)

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the tasks in flight that have begun."""
        return self._pool.progressed()

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this task has progressed by `amount`."""
        self._pool.wake_at(task, amount)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions, as long as the processes live."""
        self._pool.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process."""
        return [*self._activity, *self._pool.activity()]

    def timeline(self) -> list[Span]:
        """Return the stretches of work of all processes."""
        return [*self._spans, *self._pool.timeline()]

    def close(self) -> None:
        """End the processes."""
        self._pool.close()
