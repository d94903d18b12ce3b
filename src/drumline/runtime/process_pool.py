"""A worker pool of processes: sends leases, collects results, replaces dead workers.

The main thread makes the pool and calls `completed`. The kernel ends children with the thread that
started them, and dead workers are replaced in `completed`. If a signal handler raises out of
`completed`, the pool can still be closed, but a result that was being received may be lost.
"""

import logging
import pickle
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from drumline.errors import TaskKilledWorkers, WorkerError, about_hangs
from drumline.protocols import Completed, Probe, PublishedLayout, WorkerFactory
from drumline.runtime.cores import available_cores
from drumline.runtime.deaths import Deaths
from drumline.runtime.failures import raised, unpacked, unreadable
from drumline.runtime.fleet import Fleet
from drumline.runtime.known_answer import numpy_answer
from drumline.runtime.leases import TaskQueue, lease_size, may_wait
from drumline.runtime.messages import Answer, Failure, Reached, Ready, Unbuilt
from drumline.runtime.portable import by_reference, quickly
from drumline.runtime.progress_marks import ProgressMarks
from drumline.runtime.published import SLOTS
from drumline.runtime.records import Records, unpacked_records
from drumline.runtime.shared_arrays import SharedArrays
from drumline.runtime.worker_process import WorkerProcess
from drumline.types import ProcessActivity, Span, maker

_LOGGER = logging.getLogger("drumline")
_SPANS_KEPT = 50_000
_COMPLETED = maker(Completed)


class ProcessPool:
    """A `WorkerPool` whose workers are child processes; the constructor waits for none of them.

    With `one_task_leases`, meant for long tasks, no task waits behind another one in a worker.
    """

    def __init__(
        self,
        factory: WorkerFactory,
        *,
        size: int,
        published: PublishedLayout,
        versions: int = SLOTS,
        shared: SharedArrays | None = None,
        hang_seconds: float = 60.0,
        creation_seconds: float = 300.0,
        probe_factory: Callable[[], Probe] | None = None,
        role: str = "worker",
        one_task_leases: bool = False,
        answer: str | None = None,
        log: Callable[[str], None] = _LOGGER.warning,
    ):
        """`answer`: NumPy's known one, which workers must give; None: this process's, "": any."""
        if size < 1:
            raise ValueError(f"a pool needs a size of at least 1, got {size}")
        self.size = size
        self.outstanding = 0
        """Number of tasks submitted, neither withdrawn nor returned."""
        self._workers_per_core = max(1.0, size / available_cores())
        self._factory = factory
        self._role = role
        self._log = log
        self._queue = TaskQueue()
        self._dispatch_owed = False
        """Whether tasks came back, or an unpicklable task cut the last dispatch short."""
        self._withdrawn_below = 0
        self._finished: list[Completed] = []
        self._errors: deque[WorkerError | TaskKilledWorkers] = deque()
        self._broken: Exception | None = None
        self._one_task_leases = one_task_leases
        self._mark_reached = False
        self._deaths = Deaths(role)
        self._ended: list[ProcessActivity] = []
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._fleet = Fleet(
            by_reference(factory, "the worker factory"),
            None if probe_factory is None else by_reference(probe_factory, "the probe factory"),
            size=size,
            published=published,
            versions=versions,
            shared=shared,
            hang_seconds=hang_seconds,
            creation_seconds=creation_seconds,
            answer=numpy_answer() if answer is None else answer,
        )
        self._marks = ProgressMarks(self._fleet.board)
        self._finalizer = weakref.finalize(self, self._fleet.close)

    @property
    def ready_seconds(self) -> list[float | None]:
        """CPU seconds that each living process took to build its worker; None before."""
        return [worker.ready_seconds for worker in self._fleet.workers]

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks, and send them at once to idle workers."""
        self._refuse_if_closed()
        self._queue.push(tasks)
        self.outstanding += len(tasks)
        self._dispatch()

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return finished tasks, waiting for at least one; [] if no task can finish any more.

        It also returns once a task named by `wake_at` has reached its mark. Tasks that were
        withdrawn while they ran are waited for and returned too, marked as withdrawn. Results that
        arrived before an exception are returned before it is raised.
        """
        self._refuse_if_closed()
        deadline = None if timeout is None else time.perf_counter() + timeout
        seconds = 0.0  # first handle ready and dead workers of an idle pool
        while True:
            heard = self._take_in(seconds)
            if heard or self._dispatch_owed:
                self._dispatch(None if self._dispatch_owed else heard)
            if self._finished:
                finished, self._finished = self._finished, []
                return finished
            if self._errors:
                raised(self._errors.popleft())
            if self._broken is not None:
                raised(self._broken)
            if self._mark_reached:
                self._mark_reached = False
                return []
            if self._fleet.take_ring():
                return []
            remaining = self._fleet.tick if deadline is None else deadline - time.perf_counter()
            if remaining <= 0 or not self._expecting():
                return []
            seconds = min(remaining, self._fleet.tick)

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the begun tasks in flight, each with its highest progress so far."""
        for worker in self._fleet.workers:
            self._marks.note(worker)
        return self._marks.of(self.in_flight())

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this task object has progressed by `amount`."""
        serial = next((serial for serial, other in self.in_flight() if other is task), None)
        if serial is None:
            if any(error.task is task for error in self._errors):
                return  # it has failed, and the next wait raises its exception
            raise ValueError(f"{task!r} is not in flight")
        self._marks.want(serial, amount)
        for worker in self._fleet.workers:
            if any(serial in lease.serials for lease in worker.leases):
                self._marks.arm(worker.index, worker.leases)

    def withdraw(self) -> None:
        """Withdraw every task submitted so far.

        Withdrawn tasks that were running are returned later, finished or stopped early, and marked.
        """
        self._refuse_if_closed()
        self._withdrawn_below = self._queue.next_serial
        self._fleet.board.withdraw(self._withdrawn_below)
        self._marks.forget(serial for serial, _ in self._queue)
        self._queue.clear()
        self._errors.clear()
        self._finished = [done._replace(withdrawn=True) for done in self._finished]
        self.outstanding = 0

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every task submitted from now on."""
        self._refuse_if_closed()
        self._fleet.board.slots.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever versions follow."""
        self._refuse_if_closed()
        self._fleet.board.slots.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process, dead ones included; also after `close`."""
        rows = [*self._ended, *(self._activity(worker) for worker in self._fleet.workers)]
        return sorted(rows, key=lambda row: (row.index, row.restarts))

    def timeline(self) -> list[Span]:
        """Return the latest leases in the order of their answers."""
        return list(self._spans)

    def take_spans(self) -> list[Span]:
        """Return the latest leases and forget them."""
        return [self._spans.popleft() for _ in range(len(self._spans))]

    @property
    def closed(self) -> bool:
        """Whether every process has been ended."""
        return self._fleet.closed

    def wake(self) -> None:
        """Let `completed` return; the only call that another thread may make."""
        self._fleet.wake()

    def close(self) -> None:
        """End every process and free the memory; an abandoned pool does so when it is collected."""
        self._fleet.close()
        self._finalizer.detach()

    def _refuse_if_closed(self) -> None:
        if self._fleet.closed:
            raise RuntimeError("this pool is closed")

    def in_flight(self) -> Iterator[tuple[int, Any]]:
        """Yield the tasks that workers hold or that wait for one, each with its serial."""
        for worker in self._fleet.workers:
            for lease in worker.leases:
                yield from zip(lease.serials, lease.tasks, strict=True)
        yield from self._queue

    def _expecting(self) -> bool:
        return self.outstanding > 0 or any(worker.leases for worker in self._fleet.workers)

    def _dispatch(self, heard: Sequence[WorkerProcess] | None = None) -> None:
        """Send leases to idle workers first; then, while the queue is long, one in reserve to each.

        `heard` are the workers with a new message: only they can have become idle. Without it, for
        new or returned tasks, every worker is considered.
        """
        if not self._queue:
            return
        self._dispatch_owed = True
        for held in (0,) if self._one_task_leases else (0, 1):
            for worker in self._fleet.workers if heard is None else heard:
                if worker.usable and len(worker.leases) == held:
                    queued = len(self._queue)
                    size = self._lease_size(queued, worker)
                    if queued and (held == 0 or may_wait(size, queued, self.size)):
                        self._send(worker, size)
        self._dispatch_owed = False

    def _lease_size(self, queued: int, worker: WorkerProcess) -> int:
        if self._one_task_leases:
            return 1
        leased = max(0, self.outstanding - queued)
        return lease_size(queued, self.size, worker.pace, worker.at_once, leased)

    def _send(self, worker: WorkerProcess, size: int) -> None:
        lease = self._queue.take(size)
        self._marks.arm(worker.index, [*worker.leases, lease])
        try:
            self._fleet.send(worker, lease)
        except Exception as error:  # a task does not pickle: refuse it, keep the others
            bad = next((k for k, task in enumerate(lease.tasks) if not _travels(task)), 0)
            numbered = list(zip(lease.serials, lease.tasks, strict=True))
            self._queue.push_front(numbered[:bad] + numbered[bad + 1 :])
            self.outstanding -= 1
            raise ValueError(f"{lease.tasks[bad]!r} cannot be sent to a worker: {error}") from error

    def _take_in(self, seconds: float) -> list[WorkerProcess]:
        """Return workers with a new message; a worker without one cannot have become idle."""
        speaking = self._fleet.wait(seconds)
        for worker in speaking:
            self._listen(worker)
        fallen = self._fleet.fallen()
        for worker in fallen:
            self._bury(worker)
        return [*speaking, *fallen]

    def _listen(self, worker: WorkerProcess) -> None:
        self._read(worker)
        if worker.results.ended:
            self._bury(worker)

    def _read(self, worker: WorkerProcess) -> None:
        for frame in worker.results.receive():
            message: Answer | Ready | Reached | Unbuilt = pickle.loads(frame)
            if isinstance(message, Answer):
                self._settle(worker, message)
            elif isinstance(message, Ready):
                worker.ready_seconds, worker.at_once = message.cpu_seconds, message.at_once
            elif isinstance(message, Reached):
                self._mark_reached = True
            else:
                self._broken = unpacked(self._factory, message.failure)

    def _settle(self, worker: WorkerProcess, answer: Answer) -> None:
        """Take the results of one lease; queue the tasks again that an exception left unrun."""
        lease = worker.leases.popleft()
        self._marks.forget(lease.serials)
        self._marks.arm(worker.index, worker.leases)
        serials, tasks, results = lease.serials, lease.tasks, unpacked_records(answer.results)
        below, loads, ran = self._withdrawn_below, pickle.loads, len(results)
        before = len(self._finished)
        if isinstance(answer.results, Records) and min(serials) >= below:
            whole = zip(tasks, results, repeat(False), repeat(answer.start), repeat(answer.end))
            self._finished.extend(map(_COMPLETED, whole))
            results = ()
        for serial, task, result in zip(serials, tasks, results, strict=False):
            if result is not None:
                try:
                    value = loads(result) if type(result) is bytes else result
                    done = Completed(task, value, serial < below, answer.start, answer.end)
                    self._finished.append(done)
                except Exception as error:  # noqa: BLE001 - a result's class may run any code
                    self._errors.append(unreadable(task, error))
        self.outstanding -= sum(serial >= below for serial in serials[:ran])
        if answer.failure is not None:
            self._settle_failure(serials[ran], tasks[ran], answer, answer.failure)
            rest = zip(serials[ran + 1 :], tasks[ran + 1 :], strict=True)
            self._queue.push_front(pair for pair in rest if pair[0] >= below)
            self._dispatch_owed = True
        count = len(self._finished) - before
        if count:
            worker.pace.observe(count, (answer.end - answer.start) / self._workers_per_core)
        self._deaths.worked(worker.index)
        self._spans.append(Span(self._role, worker.index, answer.start, answer.end, count))

    def _settle_failure(self, serial: int, task: Any, answer: Answer, failure: Failure) -> None:
        if serial < self._withdrawn_below:
            self._finished.append(Completed(task, None, True, answer.start, answer.end))
        else:
            self.outstanding -= 1
            self._errors.append(unpacked(task, failure))

    def _bury(self, worker: WorkerProcess) -> None:
        """Reap a process, issue its unfinished tasks again and start another under its index."""
        cause = worker.end()
        self._marks.note(worker)
        self._read(worker)  # results that it sent before its death count
        status = self._fleet.status(worker.index)
        loss = self._deaths.judge(worker, cause, status, self._withdrawn_below)
        worker.leases.clear()
        self._queue.push_front(loss.again, alone=worker.at_once > 1)
        self._dispatch_owed = True
        if loss.condemned is not None:
            self.outstanding -= 1
            self._errors.append(loss.condemned)
        self._broken = self._broken or loss.hopeless
        if self._broken is not None:
            self._fleet.retire(worker)
            self._log(loss.line + about_hangs([cause]))
        else:
            self._ended.append(self._activity(worker))
            successor = self._fleet.replace(worker)
            self._log(f"{loss.line}; replaced by pid {successor.pid}{about_hangs([cause])}")

    def _activity(self, worker: WorkerProcess) -> ProcessActivity:
        status = self._fleet.status(worker.index)
        return ProcessActivity(
            role=self._role,
            index=worker.index,
            pid=worker.pid,
            tasks=status.tasks,
            progress=status.progress,
            busy_seconds=status.busy_seconds,
            restarts=worker.restarts,
        )


def _travels(task: Any) -> bool:
    try:
        quickly(task)
    except Exception:  # noqa: BLE001 - a task's class may run any code when it is pickled
        return False
    return True
