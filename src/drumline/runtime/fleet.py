"""Fleet: the processes of a pool; starts, waits, finds dead and hung ones, ends.

It holds no reference to its pool, so that an abandoned pool can be collected and its processes
ended.
"""

import os
import pickle
import selectors
import sys
import threading
import time
from functools import partial

from drumline.errors import HANG
from drumline.protocols import PublishedLayout
from drumline.runtime.board import CREATING, IDLE, LEAVING, Board, Status
from drumline.runtime.doorbell import Doorbell
from drumline.runtime.messages import ChildSpec, Lease
from drumline.runtime.portable import quickly
from drumline.runtime.records import packed_records
from drumline.runtime.shared_arrays import SharedArrays, anonymous_file
from drumline.runtime.worker_process import WorkerProcess

_LEAVE_SECONDS = 0.3
_LONGEST_TICK = 1.0


class Fleet:
    """`size` children, one per index; a dead one is replaced under its index."""

    def __init__(
        self,
        factory: bytes,
        probe_factory: bytes | None,
        *,
        size: int,
        published: PublishedLayout,
        versions: int,
        shared: SharedArrays | None,
        hang_seconds: float,
        creation_seconds: float,
        answer: str,
    ):
        self.workers: list[WorkerProcess] = []
        self.tick = min(_LONGEST_TICK, hang_seconds / 4, creation_seconds / 4)
        self._hang_seconds = hang_seconds
        self._creation_seconds = max(creation_seconds, hang_seconds)
        self._owner = os.getpid()
        self._last_watch = time.perf_counter()
        self._final: list[Status] | None = None
        self._shared = shared
        self.board = Board.create(size, published, versions)
        self._selector = selectors.DefaultSelector()
        self._bell = Doorbell.create()
        self._bell_lock = threading.Lock()
        self._rung = False
        self._selector.register(self._bell.read_fd, selectors.EVENT_READ, None)
        self._memory_fds = [self.board.memory.fd] + ([] if shared is None else [shared.fd])
        self._spec_fd = anonymous_file("drumline-spec")
        spec = ChildSpec(
            search_path=list(sys.path),
            size=size,
            published=published,
            versions=versions,
            board_fd=self.board.memory.fd,
            shared=None if shared is None else shared.layout,
            shared_fd=None if shared is None else shared.fd,
            factory=factory,
            probe_factory=probe_factory,
            numpy_answer=answer,
        )
        # A file, not a pipe: it takes a spec of any size at once, and every child reads the same
        # file.
        with open(self._spec_fd, "wb", closefd=False) as file:
            file.write(pickle.dumps(spec, protocol=5))
        try:
            for index in range(size):
                self._start(index, restarts=0)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether every process has been ended."""
        return self._final is not None

    def status(self, index: int) -> Status:
        """Return the words that a child has written about itself; after `close` the last ones."""
        return self.board.status(index) if self._final is None else self._final[index]

    def send(self, worker: WorkerProcess, lease: Lease) -> None:
        """Send a worker a lease; bytes that do not fit into the pipe follow during `wait`."""
        payload = quickly((lease.serials, packed_records(lease.tasks)))
        worker.leases.append(lease)
        worker.tasks.send(payload)
        if worker.tasks.waiting and worker.tasks.fd not in self._selector.get_map():
            self._selector.register(worker.tasks.fd, selectors.EVENT_WRITE, worker)

    def wait(self, seconds: float) -> list[WorkerProcess]:
        """Wait for a worker that has sent bytes or closed its pipe; return all such workers."""
        speaking: list[WorkerProcess] = []
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._bell.clear()
                self._rung = True
                continue
            worker: WorkerProcess = key.data
            if key.fd == worker.results.fd:
                speaking.append(worker)
            else:
                worker.tasks.flush()
                if not worker.tasks.waiting:
                    self._selector.unregister(key.fd)
        return speaking

    def wake(self) -> None:
        """Let a running or the next `wait` return, from any thread."""
        with self._bell_lock:
            if not self.closed:
                self._bell.ring()

    def take_ring(self) -> bool:
        """Return whether `wait` saw a ring since the last call."""
        rung, self._rung = self._rung, False
        return rung

    def fallen(self) -> list[WorkerProcess]:
        """Return workers that died without closing their pipe, and hung ones, which it kills.

        Only time that the driver spends waiting here counts, so neither a long update of the driver
        nor a sleeping machine makes a worker hang.
        """
        now = time.perf_counter()
        elapsed = now - self._last_watch
        if elapsed < self.tick:
            return []
        self._last_watch = now
        elapsed = min(elapsed, 2 * self.tick)
        return [worker for worker in self.workers if self._has_fallen(worker, elapsed)]

    def replace(self, worker: WorkerProcess) -> WorkerProcess:
        """Start a new process under the index of one that has ended."""
        self.retire(worker)
        self.board.reset(worker.index)
        return self._start(worker.index, worker.restarts + 1)

    def retire(self, worker: WorkerProcess) -> None:
        """Unregister and close the links of a process that has ended."""
        for fd in (worker.results.fd, worker.tasks.fd):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        worker.close()

    def close(self) -> None:
        """End every process and free the memory; continues where an interrupted call stopped.

        In a copy of the driver made by fork it does nothing: the processes belong to the original.
        """
        if self.closed or os.getpid() != self._owner:
            return
        self.board.withdraw(sys.maxsize)
        for worker in self.workers:
            worker.hang_up()
        deadline = time.perf_counter() + _LEAVE_SECONDS
        for worker in self.workers:
            worker.end(deadline - time.perf_counter(), partial(self._leaving, worker.index))
            worker.close()
        self._selector.close()
        with self._bell_lock:
            self._final = [self.board.status(worker.index) for worker in self.workers]
            self._bell.close()
        self.board.close()
        os.close(self._spec_fd)

    def _leaving(self, index: int) -> bool:
        return self.board.status(index).phase in (IDLE, LEAVING)

    def _start(self, index: int, restarts: int) -> WorkerProcess:
        worker = WorkerProcess(index, restarts)
        if index < len(self.workers):
            self.workers[index] = worker
        else:
            self.workers.append(worker)
        worker.start(self._spec_fd, self._memory_fds)
        self._selector.register(worker.results.fd, selectors.EVENT_READ, worker)
        return worker

    def _has_fallen(self, worker: WorkerProcess, elapsed: float) -> bool:
        if worker.exited():
            return not worker.results.ended  # the end of its pipe was handled before
        status = self.board.status(worker.index)
        if status.phase == CREATING or worker.ready_seconds is None:  # built, and not said yet
            limit = self._creation_seconds
        elif worker.leases:
            limit = self._hang_seconds
        else:
            limit = float("inf")
        # A new lease begins anew: what a worker was idle before is no sign of a hang.
        lease = worker.leases[0].serials if worker.leases else None
        mark = (lease, status.phase, status.serial, status.progress, worker.results.received_bytes)
        if worker.stillness.seconds(mark, elapsed) < limit:
            return False
        worker.hung = f"{HANG} {limit:g} s"
        worker.kill()
        return True
