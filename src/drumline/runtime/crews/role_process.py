"""RoleProcess: one long-lived role in a process of its own, as the driver sees it."""

import os
import pickle
from collections.abc import Callable, Sequence

from drumline.runtime.child_process import EXIT_SECONDS, ChildProcess, Stillness
from drumline.runtime.links import DriverEnds, IncomingFrames
from drumline.runtime.messages import RoleSpec
from drumline.runtime.shared_arrays import anonymous_file


class RoleProcess:
    """A child, its control pipe (closed to end it) and its result pipe (for its exception).

    The thread that starts it must live as long as the crew: the kernel ends the child with it.
    """

    def __init__(self, spec: RoleSpec, fds: Sequence[int], restarts: int):
        self.role, self.index, self.place = spec.role, spec.index, spec.place
        self.restarts = restarts
        self.ready = False
        self.hung = ""
        """Cause of its death, if it was killed because its progress stood still."""
        self.stillness = Stillness()
        control_read, self._control = os.pipe()
        result_read, result_write = os.pipe()
        spec_fd = anonymous_file("drumline-role")
        self._ends = DriverEnds(self._control, result_read)
        self.results = IncomingFrames(result_read)
        try:
            with open(spec_fd, "wb", closefd=False) as file:
                file.write(pickle.dumps(spec, protocol=5))
            os.lseek(spec_fd, 0, os.SEEK_SET)
            passed = (control_read, result_write, spec_fd)
            arguments = [os.getpid(), *passed]
            self._process = ChildProcess(
                "drumline.runtime.crews.role_child", arguments, (*passed, spec.memory_fd, *fds)
            )
        except BaseException:
            self.close()
            raise
        finally:
            for fd in (control_read, result_write, spec_fd):
                os.close(fd)
        self.pid = self._process.pid

    @property
    def name(self) -> str:
        """Return the role's name in messages."""
        return f"{self.role} {self.index}"

    def exited(self) -> bool:
        """Return whether the process has ended."""
        return self._process.exited()

    def kill(self) -> None:
        """Kill the child and every process that an environment has started in its group."""
        self._process.kill()

    def hang_up(self) -> None:
        """Close the control pipe: a waiting role leaves."""
        self._ends.close(self._control)

    def end(
        self, grace_seconds: float = EXIT_SECONDS, leaving: Callable[[], bool] = lambda: False
    ) -> str:
        """Reap the process, after a kill if it takes too long; return the cause of its death."""
        if self.hung:
            self._process.end(0.0)
            return self.hung
        return self._process.end(grace_seconds, leaving)

    def close(self) -> None:
        """Close the driver's ends of the pipes."""
        self.results.ended = True
        self._ends.close()
