"""Rehearsals of a run's first task: run twice in each of two workers, with equal bits."""

from collections.abc import Mapping
from typing import Any

from drumline.errors import ImpureEnvironment, another_value
from drumline.protocols import Completed, WorkerPool
from drumline.tasks import Evaluate, Evaluation, Rehearsal, RehearseTwice

PATIENCE = 60.0
"""Seconds that rehearsals may work, all together, until a second worker has taken one.

Workers are not equally quick to begin, and a pool gives a task to the first that is ready.
"""


class Rehearsals:
    """Rehearsals of one task: submitted two at a time until two workers have made some."""

    def __init__(self, pool: WorkerPool, task: Evaluate, between: Evaluate, objective: str):
        self._pool = pool
        self._task = RehearseTwice(task, between)
        self._objective = objective
        self._first: Evaluation | None = None
        self._places: set[bytes] = set()
        self._seconds = 0.0
        self._waiting = 0

    def begin(self) -> None:
        """Submit a rehearsal for each of two workers."""
        self._pool.submit([self._task] * 2)
        self._waiting = 2

    @property
    def ended(self) -> bool:
        """Whether all that were submitted have arrived."""
        return self._waiting == 0

    def take(self, done: Completed) -> int:
        """Compare a finished rehearsal with those before it; return its env steps.

        Raises `ImpureEnvironment` if their bits differ.
        """
        result: Rehearsal = done.result
        for again in (result.first, result.second):
            self._compare(again)
        self._waiting -= 1
        # A worker without a place is counted as one of its own.
        self._places.add(result.place or bytes([len(self._places)]))
        self._seconds += done.ended - done.began
        alone = self._pool.size > 1 and len(self._places) < 2
        if self.ended and alone and self._seconds < PATIENCE:
            self.begin()
        return result.first.length + result.second.length

    def compare_first(self, result: Evaluation) -> None:
        """Compare the task's own result, which has no digest, with the rehearsals."""
        if self._first is None:
            return
        pairs = zip(_values(self._first), _values(result), strict=True)
        if any(one != other for one, other in pairs):
            raise self._impure(result, self._first)

    def _compare(self, again: Evaluation) -> None:
        if self._first is None:
            self._first = again
        elif self._first.digest != again.digest or self._first.fitness != again.fitness:
            raise self._impure(self._first, again)

    def _impure(self, first: Evaluation, second: Evaluation) -> ImpureEnvironment:
        if self._objective:
            return another_value(self._objective, first.fitness, second.fitness)
        if _values(first) == _values(second):
            gave = f"other observations or rewards in its {first.length} steps"
        else:
            gave = (
                f"{second.length} steps and return {second.episode_return!r} instead of "
                f"{first.length} and {first.episode_return!r}"
            )
        return ImpureEnvironment(
            "the first episode, run again with the same seed and parameters, gave "
            f"{gave}: the environment has hidden state that "
            "reset(seed=…) does not reset, so no result could be repeated. Mend the environment, "
            "or train without the promise with --no-promise"
        )


def rehearse_task(
    pool: WorkerPool,
    published: Mapping[str, Any],
    task: Evaluate,
    between: Evaluate,
    objective: str,
) -> None:
    """Run a task twice on each of two workers, before anything else.

    Raises `ImpureEnvironment` if its bits differ.
    """
    pool.publish(task.version, published)
    rehearsals = Rehearsals(pool, task, between, objective)
    rehearsals.begin()
    while not rehearsals.ended:
        for done in pool.completed():
            rehearsals.take(done)


def _values(result: Evaluation) -> tuple[float, float, int]:
    return result.fitness, result.episode_return, result.length
