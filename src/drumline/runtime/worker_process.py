"""WorkerProcess: one child of a pool, as the driver sees it."""

import os
from collections import deque
from collections.abc import Callable, Sequence

from drumline.runtime.child_process import EXIT_SECONDS, ChildProcess, Stillness
from drumline.runtime.leases import Pace
from drumline.runtime.links import DriverEnds, IncomingFrames, OutgoingFrames
from drumline.runtime.messages import Lease


class WorkerProcess:
    """A child, its two pipes and the leases that it has not answered.

    The thread that starts it must live as long as the pool: the kernel ends the child with it.
    """

    def __init__(self, index: int, restarts: int):
        self.index = index
        self.restarts = restarts
        self.leases: deque[Lease] = deque()
        self.pace = Pace()
        self.ready_seconds: float | None = None
        """CPU seconds that the child took to build its worker; None before."""
        self.at_once = 1
        """Tasks of one lease that the worker can run side by side."""
        self.hung = ""
        """Cause of its death, if it was killed because its progress stood still."""
        self.pid = 0
        self._process: ChildProcess | None = None
        self.stillness = Stillness()
        task_read, task_write = os.pipe()
        result_read, result_write = os.pipe()
        self.tasks = OutgoingFrames(task_write)
        self.results = IncomingFrames(result_read)
        self._ends = DriverEnds(task_read, task_write, result_read, result_write)
        self._child_fds = (task_read, result_write)

    def start(self, spec_fd: int, memory_fds: Sequence[int]) -> None:
        """Start the child, without waiting for it."""
        task_fd, result_fd = self._child_fds
        arguments = [self.index, os.getpid(), task_fd, result_fd, spec_fd]
        fds = (*self._child_fds, spec_fd, *memory_fds)
        try:
            self._process = ChildProcess("drumline.runtime.child", arguments, fds)
            self.pid = self._process.pid
        finally:
            self._ends.close(*self._child_fds)

    @property
    def usable(self) -> bool:
        """Whether leases may be sent to the worker."""
        return self.ready_seconds is not None and not self.results.ended

    def exited(self) -> bool:
        """Return whether the process has ended."""
        return self._process is None or self._process.exited()

    def kill(self) -> None:
        """Kill the child and every process that an environment has started in its group."""
        if self._process is not None:
            self._process.kill()

    def end(
        self, grace_seconds: float = EXIT_SECONDS, leaving: Callable[[], bool] = lambda: False
    ) -> str:
        """Reap the process, after a kill if it takes too long; return the cause of its death."""
        if self._process is None:
            return "exit code 0"
        if self.hung:
            self._process.end(0.0)
            return self.hung
        return self._process.end(grace_seconds, leaving)

    def hang_up(self) -> None:
        """Close the task pipe: an idle child leaves."""
        self._ends.close(self.tasks.fd)

    def close(self) -> None:
        """Close the driver's ends of the pipes."""
        self.results.ended = True
        self._ends.close()
