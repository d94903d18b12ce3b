"""A worker process, started by `WorkerProcess`: `main` is its program.

    child-started → build the worker → worker-built
    → lease-received → (before-task → run → after-task)* → before-result → half-result → result-sent
    → the next lease … until the driver's end of the pipe closes → close the environment

Nothing heavy is imported here: a worker imports the modules that it needs.
"""

import os
import pickle
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

import numpy as np

from drumline.protocols import Probe, StackingWorker, Worker, no_probe
from drumline.runtime.board import (
    ANSWERING,
    BASE,
    BUSY_NS,
    CREATING,
    IDLE,
    LEAVING,
    PHASE,
    PROGRESS,
    RUNNING,
    SERIAL,
    TASKS,
    Board,
)
from drumline.runtime.child_start import begin, leave
from drumline.runtime.failures import packed
from drumline.runtime.known_answer import refuse_other_bits
from drumline.runtime.links import read_frame, write_frame
from drumline.runtime.messages import Answer, ChildSpec, Failure, Lease, Reached, Ready, Unbuilt
from drumline.runtime.records import packed_records, unpacked_records
from drumline.runtime.shared_arrays import SharedArrays


class ChildContext:
    """The `WorkerContext` of a child process."""

    def __init__(
        self,
        board: Board,
        index: int,
        shared: Mapping[str, np.ndarray],
        probe: Probe,
        send: Callable[[object], None],
        leaving: ExitStack,
    ) -> None:
        self.shared = shared
        self.probe = probe
        self._leaving = leaving
        self.row = board.row(index)
        self.is_withdrawn = board.is_withdrawn
        self._read = board.slots.read
        self._send = send
        self._mark = board.mark(index)
        self._base = 0
        self._answered = 0
        """The last mark that the driver was told of; zero is none."""

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, read in place."""
        return self._read(version)

    def progress(self, amount: int) -> None:
        """Count progress: it shows the driver that the worker is alive, and its task's position."""
        row = self.row
        row[PROGRESS] = progress = row[PROGRESS] + int(amount)
        mark = self._mark[0]
        if progress - self._base >= mark != self._answered:
            self._answered = mark
            self.probe("mark-reached")
            self._send(Reached(mark))

    def begin(self, serial: int) -> None:
        """Begin a task."""
        self._answered = 0
        self.row[BASE] = self._base = self.row[PROGRESS]
        self.row[SERIAL] = serial
        self.row[PHASE] = RUNNING

    @contextmanager
    def building(self) -> Generator[None, None, None]:
        """Show the driver the phase CREATING, with its longer time limit."""
        self.row[PHASE] = CREATING
        try:
            yield
        finally:
            self.row[PHASE] = RUNNING

    def withdrawn(self) -> bool:
        """Return whether the running task was withdrawn."""
        return self.is_withdrawn(self.row[SERIAL])

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Register `callback` for the end of the worker."""
        self._leaving.callback(callback)


def main() -> NoReturn:
    """Build the worker, serve leases until the driver closes its end of the pipe, and leave."""
    index, parent, task_fd, result_fd, spec_fd = map(int, sys.argv[1:])
    begin(parent)
    spec = _read_spec(spec_fd)
    for fd in (task_fd, result_fd, spec_fd):
        os.set_inheritable(fd, False)  # not for an environment's programs
    sys.path[:] = spec.search_path
    board = Board.attach(spec.board_fd, spec.size, spec.published, spec.versions)
    leaving = ExitStack()
    with suppress(BrokenPipeError):  # the driver is gone, or has closed the pool
        try:
            probe: Probe = pickle.loads(spec.probe_factory)() if spec.probe_factory else no_probe
            probe("child-started")
            refuse_other_bits(spec.numpy_answer)
            send = partial(_send, result_fd, probe=no_probe)
            context = ChildContext(board, index, _attach_shared(spec), probe, send, leaving)
            worker: Worker = pickle.loads(spec.factory)(context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the caller must see it
            _send(result_fd, Unbuilt(packed(error)), no_probe)
            leaving.close()
            leave(1)
        context.row[PHASE] = IDLE
        at_once = worker.at_once if isinstance(worker, StackingWorker) else 1
        _send(result_fd, Ready(time.process_time(), at_once), no_probe)
        probe("worker-built")
        _serve(task_fd, result_fd, worker, context)
    board.row(index)[PHASE] = LEAVING
    leaving.close()
    leave(0)


def _serve(task_fd: int, result_fd: int, worker: Worker, context: ChildContext) -> None:
    probe = context.probe
    while (frame := read_frame(task_fd)) is not None:
        probe("lease-received")
        answer = _run_lease(frame, worker, context)
        probe("before-result")
        _send(result_fd, answer, probe)
        context.row[PHASE] = IDLE
        probe("result-sent")


def _run_lease(frame: bytes, worker: Worker, context: ChildContext) -> Answer:
    """Run a lease to its end or to its first exception.

    Each result is pickled when its task ends, because a worker may reuse its arrays for the next
    task. Those of tasks that ran side by side are new, and are pickled with the answer, which
    takes half as long.
    """
    row, probe, is_withdrawn = context.row, context.probe, context.is_withdrawn
    clock, dumps = time.perf_counter_ns, pickle.dumps
    results: list[Any] = []
    failure: Failure | None = None
    start = time.perf_counter()
    lease = _read_lease(frame)
    if isinstance(lease, Failure):
        return Answer(start, time.perf_counter(), results, lease)
    stacking = worker if isinstance(worker, StackingWorker) and worker.at_once > 1 else None
    alone = 0  # tasks before this place run one by one
    for place, (serial, task) in enumerate(zip(lease.serials, lease.tasks, strict=True)):
        if place < len(results):
            continue
        if is_withdrawn(serial):
            results.append(None)
            continue
        if stacking is not None and place >= alone:
            count = stacking.leading(lease.tasks[place:])
            if count > 1 and row[TASKS]:
                stop = place + count
                together = _run_together(stacking, lease, place, stop, context)
                results += together
                alone = stop
                if together:
                    continue
        context.begin(serial)
        probe("before-task")
        begin = clock()
        try:
            results.append(dumps(worker(task), 5))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the caller must see it
            if not is_withdrawn(serial):
                failure = packed(error)
                break
            results.append(dumps(None))  # withdrawn by the caller
        finally:
            row[BUSY_NS] += clock() - begin
            row[TASKS] += 1
        probe("after-task")
    row[PHASE] = ANSWERING
    return Answer(start, time.perf_counter(), packed_records(results), failure)


def _run_together(
    worker: StackingWorker, lease: Lease, start: int, stop: int, context: ChildContext
) -> list[Any]:
    """Run tasks side by side under the last one's serial; empty: they are to run one by one.

    An exception is not said to be of one of them: run one by one, each task raises its own.
    """
    row = context.row
    context.begin(lease.serials[stop - 1])
    context.probe("before-task")
    begin = time.perf_counter_ns()
    try:
        values = worker.together(lease.tasks[start:stop])
    except (Exception, SystemExit):  # noqa: BLE001 - tasks are pure and run again
        return []
    finally:
        row[BUSY_NS] += time.perf_counter_ns() - begin
    row[TASKS] += stop - start
    context.probe("after-task")
    return list(values)


def _read_lease(frame: bytes) -> Lease | Failure:
    try:
        serials, tasks = pickle.loads(frame)
        return Lease(serials, tuple(unpacked_records(tasks)))
    except Exception as error:  # noqa: BLE001 - a task's class may run any code when it is read
        return packed(error)


def _send(fd: int, message: object, probe: Probe) -> None:
    write_frame(fd, pickle.dumps(message, protocol=5), lambda: probe("half-result"))


def _read_spec(fd: int) -> ChildSpec:
    return pickle.loads(os.pread(fd, os.fstat(fd).st_size, 0))


def _attach_shared(spec: ChildSpec) -> Mapping[str, np.ndarray]:
    if spec.shared is None or spec.shared_fd is None:
        return {}
    return SharedArrays.attach(spec.shared_fd, spec.shared).arrays
