"""Idle times of logical workers in virtual nanoseconds: the same on every layout."""

import numpy as np

from drumline.tasks import Event
from drumline.types import State

_NAMES = ("worker_ends", "worker_idle", "worker_idle_total")


class IdleTimes:
    """Virtual nanoseconds between the end of a logical worker's job and the start of its next."""

    def __init__(self, workers: int):
        self._ends = np.zeros(workers, np.int64)
        self._idle = np.zeros(workers, np.int64)
        self._total = np.zeros(workers, np.int64)

    def add(self, event: Event) -> None:
        """Add the time between a job and the one before it; every worker began at 0."""
        # By the wall clock, ends are handled out of their virtual order.
        idle = max(0, event.start - int(self._ends[event.worker]))
        self._idle[event.worker] += idle
        self._total[event.worker] += idle
        self._ends[event.worker] = event.end

    def take(self, worker: int) -> int:
        """Return a worker's idle virtual nanoseconds since the last call."""
        idle = int(self._idle[worker])
        self._idle[worker] = 0
        return idle

    def total(self, worker: int) -> int:
        """Return a worker's idle virtual nanoseconds, up to its last finished job."""
        return int(self._total[worker])

    def state(self) -> State:
        """Return copies of the counts."""
        counts = (self._ends, self._idle, self._total)
        return State({name: count.copy() for name, count in zip(_NAMES, counts, strict=True)})

    def load(self, state: State) -> None:
        """Take over the counts of a state."""
        self._ends, self._idle, self._total = (state.tensor(name) for name in _NAMES)
