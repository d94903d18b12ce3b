"""How many tasks go into one message, and which."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from drumline.runtime.messages import Lease

LEASE_SECONDS = 0.05  # long against one hand-over (0.2 ms), short against a generation
LEAST_SECONDS = 0.002  # nobody notices an imbalance of this at the end of the queue
_LEASES_IN_RESERVE = 4  # per worker: below that, a task must not wait behind another one
_LARGEST_GROWTH = 16
_LARGEST = 4096


class Pace:
    """How long tasks take in one worker, where it has a core to itself.

    Workers that share a core take turns: by the clock on the wall alone 16 workers on 2 cores
    would get leases of an eighth, and the driver, which needs a core too, would pay for each.
    """

    def __init__(self) -> None:
        self.seconds_per_task: float | None = None
        self.largest = 1
        """One fast task is no proof, so leases grow step by step."""

    def observe(self, tasks: int, seconds: float) -> None:
        """Learn from one answered lease; the latest counts as much as all before it."""
        latest = max(seconds / tasks, 1e-7)
        previous = self.seconds_per_task
        self.seconds_per_task = latest if previous is None else (previous + latest) / 2
        self.largest = min(_LARGEST, _LARGEST_GROWTH * tasks)


def lease_size(queued: int, workers: int, pace: Pace) -> int:
    """Return how many of `queued` tasks a worker gets: 50 ms, and ever fewer towards the end."""
    if pace.seconds_per_task is None:
        return 1
    timed = LEASE_SECONDS / pace.seconds_per_task
    shrinking = max(queued / (_LEASES_IN_RESERVE * workers), LEAST_SECONDS / pace.seconds_per_task)
    share = math.ceil(queued / workers)
    return max(1, min(int(min(timed, shrinking)), share, pace.largest))


def may_wait(size: int, queued: int, workers: int) -> bool:
    """Return whether a lease may be sent to a worker that still has one.

    It then starts without waiting for the driver. Near the end of the queue it would wait
    behind a long task while other workers are idle.
    """
    return queued >= _LEASES_IN_RESERVE * workers * size


class TaskQueue:
    """Tasks that wait for a worker, each with its serial."""

    def __init__(self) -> None:
        self.next_serial = 0
        self._waiting: deque[tuple[int, Any]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, tasks: Sequence[Any]) -> None:
        """Queue tasks behind all others, under new serials."""
        first, self.next_serial = self.next_serial, self.next_serial + len(tasks)
        self._waiting.extend(zip(range(first, self.next_serial), tasks, strict=True))

    def push_front(self, numbered: Iterable[tuple[int, Any]]) -> None:
        """Queue tasks that were issued before, first in line again."""
        self._waiting.extendleft(reversed(list(numbered)))

    def take(self, count: int) -> Lease:
        """Return the first `count` tasks."""
        numbered = [self._waiting.popleft() for _ in range(count)]
        serials, tasks = zip(*numbered, strict=True)
        return Lease(serials, tasks)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter(self._waiting)

    def clear(self) -> None:
        """Forget all tasks; their serials are not used again."""
        self._waiting.clear()
