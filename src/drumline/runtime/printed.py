"""Standard output of child processes, and of environments in the driver: kept off the screen.

    child prints → pipe → a thread of the driver → `keep`

Without `captured`, children print on the driver's standard error: their words must not mix with
output that a program reads.
"""

import codecs
import fcntl
import os
import select
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

_CHUNK = 1 << 16
_PIPE = 1 << 20


class Printed:
    """The file descriptor that new children print to."""

    def __init__(self):
        self.fd = 2
        self.streams: tuple[int, ...] = (1, 2)
        """Descriptors that this process's own words go to."""

    def leave_first(self) -> None:
        """Let `sys.stdout` write to another descriptor than 1, which is then left to other code."""
        stdout: Any = sys.stdout
        if _descriptor(stdout) != 1:
            return
        stdout.flush()
        own = os.dup(1)
        self.streams = (1, 2, own)
        # A name or a sign that the encoding lacks must not end a run.
        whole = codecs.lookup(stdout.encoding).name == "utf-8"
        errors = stdout.errors if whole else "backslashreplace"
        sys.stdout = open(  # noqa: SIM115 - for as long as the process lives
            own, "w", encoding=stdout.encoding, errors=errors, closefd=False
        )
        sys.stdout.reconfigure(
            line_buffering=stdout.line_buffering, write_through=stdout.write_through
        )

    @contextmanager
    def captured(self, keep: Callable[[bytes], None]) -> Generator[None]:
        """Give all that is printed meanwhile to `keep`, which a thread of its own calls.

        `sys.stdout` is replaced too, for environments in this process; a breakpoint puts it back.
        So is descriptor 1, to which simulators written in C print, where `sys.stdout` has another
        one (`leave_first`).
        """
        before, stdout, hook = self.fd, sys.stdout, sys.breakpointhook
        drain = _Drain(keep)
        first = _First(drain.write_fd) if _descriptor(stdout) not in (1, None) else None

        def at_breakpoint(*arguments: object, **named: object) -> object:
            sys.stdout = stdout
            if first is not None:
                first.give_back()
            return hook(*arguments, **named)

        own = open(os.dup(drain.write_fd), "w", 1, "utf-8", "backslashreplace")  # noqa: SIM115
        self.fd, sys.stdout, sys.breakpointhook = drain.write_fd, own, at_breakpoint
        try:
            yield
        finally:
            self.fd, sys.stdout, sys.breakpointhook = before, stdout, hook
            with suppress(ValueError):  # an environment may have closed it
                own.close()
            if first is not None:
                first.close()
            drain.close()


class _First:
    """Descriptor 1 of this process, while it is another one."""

    def __init__(self, fd: int):
        self._own = os.dup(1)
        os.dup2(fd, 1)

    def give_back(self) -> None:
        """Make descriptor 1 what it was, after what C code has printed and not yet written."""
        import ctypes  # 5 ms, and not for each command

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
        os.dup2(self._own, 1)

    def close(self) -> None:
        """Make descriptor 1 what it was for good."""
        self.give_back()
        os.close(self._own)


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a stream; None if it has none or is closed."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


class _Drain:
    """A pipe, and the thread that reads it to its end."""

    def __init__(self, keep: Callable[[bytes], None]):
        self._keep = keep
        self._read_fd, self.write_fd = os.pipe()
        self._stop_read, self._stop_write = os.pipe()
        os.set_blocking(self._read_fd, False)
        # C code that keeps the interpreter locked could not wait for the thread to read.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._read_fd, fcntl.F_SETPIPE_SZ, _PIPE)
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
        poll = select.poll()  # `select` fails where more than 1,024 descriptors are open
        for fd in (self._read_fd, self._stop_read):
            poll.register(fd, select.POLLIN | select.POLLHUP)
        ended = False
        while not ended:
            ended = self._stop_read in (fd for fd, _ in poll.poll())
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
