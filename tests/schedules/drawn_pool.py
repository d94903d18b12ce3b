"""A pool in which nothing takes time: a random generator draws the task and its progress."""

import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.protocols import Completed, WorkerPool


@dataclass
class Running:
    """A task in one of the imagined processes."""

    task: Any
    result: Any = None
    steps: int = 0
    progress: int = 0
    mark: int = 0


class DrawnPool:
    """Imagines `processes` workers over an inline pool, and wakes its caller only for a reason.

    A task is run when it begins and again when it ends, and must give the same both times: so
    whatever it reads has to stay as it is for all that time. `is_due` tells from the progress of
    the tasks in flight whether the caller has something to do: then it must not be waiting here,
    and must have asked to be woken.
    """

    def __init__(
        self,
        pool: WorkerPool,
        processes: int,
        rng: random.Random,
        steps_of: Callable[[Any, Any], int],
        is_due: Callable[[dict[int, int]], bool],
    ):
        self.size = processes
        self._pool = pool
        self._rng = rng
        self._steps_of = steps_of
        self._is_due = is_due
        self._queue: deque[Running] = deque()
        self._running: list[Running] = []

    def submit(self, tasks: Sequence[Any]) -> None:
        self._queue.extend(Running(task) for task in tasks)

    def completed(self, timeout: float | None = None) -> list[Completed]:
        assert not self._due(), "the caller waits although it has something to do"
        finished: list[Completed] = []
        while True:
            while self._queue and len(self._running) < self.size:
                self._running.append(self._begun(self._queue.popleft()))
            if not self._running:
                return finished
            entry = self._rng.choice(self._running)
            entry.progress += self._rng.randint(0, entry.steps - entry.progress)
            if entry.progress == entry.steps and self._rng.random() < 0.5:
                assert self._run(entry.task) == entry.result, "what a running task reads changed"
                self._running.remove(entry)
                finished.append(Completed(entry.task, entry.result, False, 0.0, 0.0))
                if self._rng.random() < 0.7:
                    return finished
            elif 0 < entry.mark <= entry.progress:
                entry.mark = 0
                return finished
            assert finished or not self._due(), "the caller sleeps although it has something to do"

    def progressed(self) -> list[tuple[Any, int]]:
        return [(entry.task, entry.progress) for entry in self._running if entry.progress]

    def wake_at(self, task: Any, amount: int) -> None:
        (entry,) = [entry for entry in self._in_flight() if entry.task is task]
        entry.mark = amount

    def retain(self, versions: Collection[int]) -> None:
        self._pool.retain(versions)

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        self._pool.publish(version, arrays)

    def close(self) -> None:
        self._pool.close()

    def _due(self) -> bool:
        return self._is_due({id(entry.task): entry.progress for entry in self._in_flight()})

    def _in_flight(self) -> list[Running]:
        return [*self._running, *self._queue]

    def _begun(self, entry: Running) -> Running:
        entry.result = self._run(entry.task)
        entry.steps = self._steps_of(entry.task, entry.result)
        return entry

    def _run(self, task: Any) -> Any:
        self._pool.submit([task])
        return self._pool.completed()[0].result
