"""Standard output of child processes, and of environments in the driver: kept off the screen.

    child prints → pipe → a thread of the driver → `keep`

Without `captured`, children print on the driver's standard error: their words must not mix with
output that a program reads.
"""

import os
import select
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


class Printed:
    """The file descriptor that new children print to."""

    def __init__(self):
        self.fd = 2

    @contextmanager
    def captured(self, keep: Callable[[bytes], None]) -> Generator[None]:
        """Give all that is printed meanwhile to `keep`, which a thread of its own calls.

        `sys.stdout` is replaced too, for environments in this process; a breakpoint puts it back.
        """
        before, stdout, hook = self.fd, sys.stdout, sys.breakpointhook
        drain = _Drain(keep)

        def at_breakpoint(*arguments: object, **named: object) -> object:
            sys.stdout = stdout
            return hook(*arguments, **named)

        own = open(os.dup(drain.write_fd), "w", 1, "utf-8", "backslashreplace")  # noqa: SIM115
        self.fd, sys.stdout, sys.breakpointhook = drain.write_fd, own, at_breakpoint
        try:
            yield
        finally:
            self.fd, sys.stdout, sys.breakpointhook = before, stdout, hook
            with suppress(ValueError):  # an environment may have closed it
                own.close()
            drain.close()


class _Drain:
    """A pipe, and the thread that reads it to its end."""

    def __init__(self, keep: Callable[[bytes], None]):
        self._keep = keep
        self._read_fd, self.write_fd = os.pipe()
        self._stop_read, self._stop_write = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._thread = threading.Thread(target=self._run, name="drumline-printed", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take what is in the pipe; programs that an environment left running may go on."""
        os.close(self.write_fd)
        os.close(self._stop_write)
        self._thread.join()
        for fd in (self._read_fd, self._stop_read):
            os.close(fd)

    def _run(self) -> None:
        ended = False
        while not ended:
            ready, _, _ = select.select([self._read_fd, self._stop_read], [], [])
            ended = self._stop_read in ready
            while True:
                try:
                    data = os.read(self._read_fd, _CHUNK)
                except BlockingIOError:
                    break
                if not data:
                    return
                self._keep(data)


PRINTED = Printed()
"""Where children of this process print."""
