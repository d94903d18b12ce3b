"""Leases: which tasks, and how many of them, go to a worker in one message."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drumline.runtime.messages import Lease

LEASE_SECONDS = 0.05  # long against one hand-over (0.2 ms), short against a generation
LEAST_SECONDS = 0.002  # an imbalance of this length at the end of the queue is negligible
_LEASES_IN_RESERVE = 4  # per worker: with fewer, no task may wait behind another one
_LARGEST_GROWTH = 16
_LARGEST = 4096
_STACKS = 2
_SHORT_SECONDS = 0.02


class Pace:
    """Seconds per task of one worker, as on a core of its own.

    Workers that share a core take turns. By wall-clock time alone, 16 workers on 2 cores would get
    leases of an eighth, and the driver, which needs a core too, would pay for each.
    """

    def __init__(self) -> None:
        self.seconds_per_task: float | None = None
        self.largest = 1
        """Largest lease. One fast task proves little, so leases grow step by step."""

    def observe(self, tasks: int, seconds: float) -> None:
        """Update the pace with an answered lease, which counts as much as all leases before it."""
        latest = max(seconds / tasks, 1e-7)
        previous = self.seconds_per_task
        self.seconds_per_task = latest if previous is None else (previous + latest) / 2
        self.largest = min(_LARGEST, _LARGEST_GROWTH * tasks)


def lease_size(queued: int, workers: int, pace: Pace, at_once: int = 1, leased: int = 0) -> int:
    """Return the tasks for one lease: 50 ms of work, and fewer towards the end of the queue.

    A worker that runs `at_once` tasks side by side gets enough for that, within its share: where
    there is no other worker, all that it can do in 50 ms. If all workers together end within 20 ms,
    each gets its share of all tasks, those that are `leased` included, in one lease: the driver
    would take longer to hand out the rest than an even end saves.
    """
    if pace.seconds_per_task is None:
        return 1
    timed = LEASE_SECONDS / pace.seconds_per_task
    shrinking = max(queued / (_LEASES_IN_RESERVE * workers), LEAST_SECONDS / pace.seconds_per_task)
    share = math.ceil(queued / workers)
    side_by_side = 1
    if at_once > 1:
        side_by_side = max(_STACKS * at_once, min(int(timed), pace.largest) if workers == 1 else 0)
        if (queued + leased) * pace.seconds_per_task <= _SHORT_SECONDS * workers:
            share = min(queued, math.ceil((queued + leased) / workers))
    return min(max(1, side_by_side, min(int(min(timed, shrinking)), pace.largest)), share)


def may_wait(size: int, queued: int, workers: int) -> bool:
    """Return whether a worker with one lease may be sent a second one.

    The second lease then starts without waiting for the driver. Near the end of the queue it would
    wait behind a long task while other workers are idle.
    """
    return queued >= _LEASES_IN_RESERVE * workers * size


class TaskQueue:
    """Tasks that wait for a worker, each with its serial."""

    def __init__(self) -> None:
        self.next_serial = 0
        self._waiting: deque[tuple[int, Any]] = deque()
        self._alone: set[int] = set()
        """Serials of tasks that go into leases of their own."""

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, tasks: Sequence[Any]) -> None:
        """Queue tasks behind all others, under new serials."""
        first, self.next_serial = self.next_serial, self.next_serial + len(tasks)
        self._waiting.extend(zip(range(first, self.next_serial), tasks, strict=True))

    def push_front(self, numbered: Iterable[tuple[int, Any]], *, alone: bool = False) -> None:
        """Queue tasks that were issued before in front of all others.

        `alone`: each in a lease of its own, so that one that ends its worker can be told.
        """
        again = list(numbered)
        self._waiting.extendleft(reversed(again))
        if alone:
            self._alone.update(serial for serial, _ in again)

    def take(self, count: int) -> Lease:
        """Return the first tasks, at most `count`."""
        if not self._alone:
            waiting = self._waiting.popleft
            serials, tasks = zip(*[waiting() for _ in range(min(count, len(self)))], strict=True)
            return Lease(serials, tasks)
        numbered = [self._waiting.popleft()]
        while len(numbered) < count and not self._apart(numbered[-1][0]):
            numbered.append(self._waiting.popleft())
        self._alone.difference_update(serial for serial, _ in numbered)
        serials, tasks = zip(*numbered, strict=True)
        return Lease(serials, tasks)

    def _apart(self, serial: int) -> bool:
        """Return whether the next task cannot be in the lease of this one."""
        alone = self._alone
        return not self._waiting or serial in alone or self._waiting[0][0] in alone

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter(self._waiting)

    def clear(self) -> None:
        """Drop all tasks; their serials are not used again."""
        self._waiting.clear()
        self._alone.clear()
