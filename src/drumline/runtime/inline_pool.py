"""A worker pool in this process: for debugging, notebooks and tests."""

import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from drumline.errors import WorkerError, words_of
from drumline.protocols import (
    Completed,
    Probe,
    PublishedLayout,
    Unwatched,
    Whereabouts,
    Worker,
    WorkerFactory,
    no_probe,
)
from drumline.runtime.published import SLOTS, PublishedSlots, slots_layout
from drumline.runtime.shared_arrays import SharedArrays
from drumline.types import ProcessActivity, Span

_BATCH_SECONDS = 0.005  # run several tiny tasks per call
_SPANS_KEPT = 50_000


class InlineContext:
    """The `WorkerContext` of a worker inside the driver."""

    def __init__(
        self, slots: PublishedSlots, shared: Mapping[str, np.ndarray], probe: Probe
    ) -> None:
        self.shared = shared
        self.probe = probe
        self.leaving = ExitStack()
        self.whereabouts: Whereabouts = Unwatched()
        self.progressed = 0
        self.counted: Any = [0]
        self.reached = 0
        """Progress of the running task."""
        self._slots = slots

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, read in place."""
        return self._slots.read(version)

    def progress(self, amount: int) -> None:
        """Count progress; no hang is detected here."""
        self.progressed += int(amount)
        self.reached += int(amount)
        self.counted[0] = self.reached

    def building(self) -> AbstractContextManager[None]:
        """Have the driver's guard allow the time of a creation."""
        return self.whereabouts.building()

    def withdrawn(self) -> bool:
        """Return False: during a task the caller's own thread is busy and cannot withdraw it."""
        return False

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Register `callback` for the end of the worker."""
        self.leaving.callback(callback)


class InlinePool:
    """A `WorkerPool` of one worker that runs during `completed`; nothing is pickled."""

    size = 1

    def __init__(
        self,
        factory: WorkerFactory,
        *,
        published: PublishedLayout,
        versions: int = SLOTS,
        shared: SharedArrays | None = None,
        probe_factory: Callable[[], Probe] | None = None,
        role: str = "worker",
        whereabouts: Whereabouts | None = None,
        where: str = "",
    ):
        """`where` names the environment in the note of the `whereabouts`."""
        self._whereabouts = whereabouts or Unwatched()
        self._where = where
        memory = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in slots_layout(published, versions).arrays.items()
        }
        self._slots = PublishedSlots(published, memory)
        self._slots.clear()
        probe = no_probe if probe_factory is None else probe_factory()
        self._context = InlineContext(self._slots, {} if shared is None else shared.arrays, probe)
        self._context.whereabouts = self._whereabouts
        self._context.counted = self._whereabouts.step
        self._factory = factory
        self._worker: Worker | None = None
        self._role = role
        self._queue: deque[Any] = deque()
        self._error: WorkerError | None = None
        self._tasks = 0
        self._busy_seconds = 0.0
        self._highest = 0
        """Progress of the queue's first task in a run that was cut short."""
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._closed = False

    @property
    def outstanding(self) -> int:
        """Tasks submitted, not withdrawn and not returned."""
        return len(self._queue)

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks; they run in `completed`."""
        self._refuse_if_closed()
        self._queue.extend(tasks)

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Run the next task, or several tiny ones; `timeout` does not stop a running task."""
        self._refuse_if_closed()
        if self._error is None and self._queue:
            finished = self._run()
            if finished:
                return finished
        error, self._error = self._error, None
        if error is not None:
            raise error from error.cause
        return []

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the task that an interrupt cut short, with its progress."""
        return [(self._queue[0], self._highest)] if self._queue and self._highest else []

    def wake_at(self, task: Any, amount: int) -> None:
        """Do nothing: no task runs while the caller waits."""
        self._refuse_if_closed()
        failed = self._error is not None and self._error.task is task  # raised at the next wait
        if not failed and not any(queued is task for queued in self._queue):
            raise ValueError(f"{task!r} is not in flight")

    def withdraw(self) -> None:
        """Drop the queued tasks; none is running."""
        self._refuse_if_closed()
        self._highest = 0
        self._queue.clear()
        self._error = None

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every task submitted from now on."""
        self._refuse_if_closed()
        self._slots.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever versions follow."""
        self._refuse_if_closed()
        self._slots.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row, for this process."""
        return [
            ProcessActivity(
                role=self._role,
                index=0,
                pid=os.getpid(),
                tasks=self._tasks,
                progress=self._context.progressed,
                busy_seconds=self._busy_seconds,
                restarts=0,
            )
        ]

    def timeline(self) -> list[Span]:
        """Return one stretch of work per call of `completed`."""
        return list(self._spans)

    def close(self) -> None:
        """Drop the worker and the queue; may be called twice."""
        self._closed = True
        self._context.leaving.close()
        self._worker = None
        self._queue.clear()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this pool is closed")

    def _run(self) -> list[Completed]:
        finished: list[Completed] = []
        probe = self._context.probe
        start = end = time.perf_counter()
        try:
            worker = self._built_worker()
            while self._queue and end - start < _BATCH_SECONDS:
                task, began = self._queue[0], end
                self._context.reached = 0
                self._whereabouts.enter(f"{self._where}, {task!r}")
                probe("before-task")
                result = worker(task)
                end = time.perf_counter()
                finished.append(Completed(task, result, False, began, end))
                self._queue.popleft()  # only now, so that a task cut short by Ctrl-C is not lost
                self._context.reached = self._highest = 0
                probe("after-task")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as for every worker's error
            text = "".join(traceback.format_exception(error))
            blamed = self._factory if self._worker is None else self._queue.popleft()
            self._context.reached = self._highest = 0
            self._error = WorkerError(blamed, words_of(error), text, error)
            end = time.perf_counter()
        finally:
            self._whereabouts.leave()
            self._highest = max(self._highest, self._context.reached)
        self._tasks += len(finished)
        self._busy_seconds += end - start
        self._spans.append(Span(self._role, 0, start, end, len(finished)))
        return finished

    def _built_worker(self) -> Worker:
        if self._worker is None:
            self._worker = self._factory(self._context)
            self._context.probe("worker-built")
        return self._worker
