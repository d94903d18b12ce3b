"""Doorbells: a process wakes another without holding a lock that it could die with."""

import os
import select
from collections.abc import Sequence


class Doorbell:
    """A counter in the kernel (`eventfd`, else a pipe); several rings may arrive as one."""

    def __init__(self, read_fd: int, write_fd: int):
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._counts = read_fd == write_fd

    @staticmethod
    def create() -> "Doorbell":
        """Return a bell without rings."""
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return Doorbell(fd, fd)
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        return Doorbell(read_fd, write_fd)

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that a child needs."""
        return (self.read_fd,) if self._counts else (self.read_fd, self.write_fd)

    def ring(self) -> None:
        """Wake the waiting process; a full bell has been rung already."""
        try:
            if self._counts:
                os.eventfd_write(self.write_fd, 1)
            else:
                os.write(self.write_fd, b"\0")
        except BlockingIOError:
            pass

    def clear(self) -> None:
        """Drop all rings so far. Read the shared words after this call, never before it."""
        try:
            if self._counts:
                os.eventfd_read(self.read_fd)
            else:
                while len(os.read(self.read_fd, 4096)) == 4096:
                    pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close the descriptors of this process."""
        for fd in self.fds:
            os.close(fd)


class BellWait:
    """Waits for a bell, for the end of a pipe, or for a time, whichever comes first."""

    def __init__(self, bell: Doorbell, others: Sequence[int] = ()):
        self._bell = bell
        self._fds = (bell.read_fd, *others)
        self._fits_select = max(self._fds) < _SELECTABLE
        self._poll = select.poll()
        for fd in self._fds:
            self._poll.register(fd, select.POLLIN | select.POLLHUP)

    def wait(self, seconds: float | None) -> list[int]:
        """Return the other descriptors that can be read; clears the bell."""
        if seconds is not None and self._fits_select:
            # `select` waits to the microsecond; `poll` rounds up to whole milliseconds.
            found = select.select(self._fds, (), (), seconds)[0]
        else:
            milliseconds = None if seconds is None else seconds * 1000.0
            found = [fd for fd, _ in self._poll.poll(milliseconds)]
        if self._bell.read_fd in found:
            self._bell.clear()
            found.remove(self._bell.read_fd)
        return found


_SELECTABLE = 1024  # FD_SETSIZE: `select` takes no descriptor from this number on
