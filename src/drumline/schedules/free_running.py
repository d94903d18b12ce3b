"""Nobody waits for anybody: learning takes the unrolls that are full, as they come (IMPALA).

    environments   unroll after unroll with the newest version, as long as their queue has room
    learner        takes `batch` full unrolls → version k + 1 → takes the next `batch` …

Which unrolls an update sees, and how old their versions are, depends on who was quick: nothing
here is promised, so the lag is measured. The queue is bounded: an environment that is two unrolls
ahead of the learner waits.
"""

import time
from collections.abc import Iterator
from typing import Protocol

from drumline.crew_protocols import Crew
from drumline.protocols import Learner
from drumline.schedules.intervals import Interval, learned_from
from drumline.types import Rollout


class Unrolls(Protocol):
    """The bounded queue of full unrolls."""

    def waiting(self) -> int:
        """Return how many unrolls are full and not taken."""
        ...

    def take(self, count: int, update: int) -> Rollout:
        """Return the oldest ones as one rollout of `count` columns, and make room for others."""
        ...


def free_running(
    learner: Learner, crew: Crew, unrolls: Unrolls, *, batch: int, updates: int, first: int = 0
) -> Iterator[Interval]:
    """Yield each update from `first` on; version `first` is published by the caller."""
    for update in range(first, updates):
        began = time.perf_counter()
        crew.wait(lambda: unrolls.waiting() >= batch)
        rollout, behavior = unrolls.take(batch, update), crew.published(update)
        finished = learned_from(
            rollout, learner, behavior, update=update + 1, version=update + 1, began=began
        )
        crew.publish(update + 1, learner.published())
        yield finished
