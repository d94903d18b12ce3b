"""One child of a pool, as the driver sees it."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path

from drumline.runtime.leases import Pace
from drumline.runtime.links import IncomingFrames, OutgoingFrames
from drumline.runtime.messages import Lease

_EXIT_SECONDS = 1.0
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)


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
        """CPU seconds that the child took until its worker was built; None before."""
        self.hung = False
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: Hashable = None
        self._still_seconds = 0.0
        task_read, task_write = os.pipe()
        result_read, result_write = os.pipe()
        self.tasks = OutgoingFrames(task_write)
        self.results = IncomingFrames(result_read)
        self._fds = {task_read, task_write, result_read, result_write}
        self._child_fds = (task_read, result_write)

    def start(self, spec_fd: int, memory_fds: Sequence[int]) -> None:
        """Start the child and wait for nothing."""
        task_fd, result_fd = self._child_fds
        module = ["-P", "-m", "drumline.runtime.child"]
        arguments = [self.index, os.getpid(), task_fd, result_fd, spec_fd]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what an environment prints must not reach a machine-readable output
                env=_environment(),
                pass_fds=(*self._child_fds, spec_fd, *memory_fds),
                process_group=0,
            )
            self.pid = self._process.pid
        finally:
            self._close_fds(self._child_fds)

    @property
    def usable(self) -> bool:
        """Whether leases may be sent."""
        return self.ready_seconds is not None and not self.results.ended

    def still_seconds(self, mark: Hashable, elapsed: float) -> float:
        """Return for how long `mark`, which moves with the child's work, has stood still."""
        moved = mark != self._seen
        self._seen = mark
        self._still_seconds = 0.0 if moved else self._still_seconds + elapsed
        return self._still_seconds

    def exited(self) -> bool:
        """Return whether the process has ended, without reaping it: its group stays its own."""
        if self._process is None or self._process.returncode is not None:
            return True
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, options) is not None
        except ChildProcessError:
            return True

    def kill(self) -> None:
        """End the child and whatever an environment has started in its process group."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self, grace_seconds: float = _EXIT_SECONDS) -> str:
        """Reap the process, killing what does not leave in time; returns the cause of its death."""
        deadline = time.perf_counter() + (0.0 if self.hung else grace_seconds)
        while not self.exited() and time.perf_counter() < deadline:
            time.sleep(0.001)
        self.kill()
        code = 0 if self._process is None else self._process.wait()
        if self.hung:
            return "hung"
        return _signal_name(-code) if code < 0 else f"exit code {code}"

    def hang_up(self) -> None:
        """Close the task pipe: an idle child leaves."""
        self._close_fds([self.tasks.fd])

    def close(self) -> None:
        """Close the driver's ends; nothing more is sent or expected."""
        self.results.ended = True
        self._close_fds(list(self._fds))

    def _close_fds(self, fds: Sequence[int]) -> None:
        for fd in fds:
            if fd in self._fds:
                self._fds.discard(fd)
                os.close(fd)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def _environment() -> dict[str, str]:
    """One BLAS thread per worker; hashing is fixed, so no set's order differs between workers."""
    here = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    path = here if not inherited else here + os.pathsep + inherited
    return {**os.environ, **_ONE_THREAD, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
