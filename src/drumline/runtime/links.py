"""Framed pipes: every link has one writer and one reader, so a dying process holds no lock.

The driver's ends never block: bytes for a full pipe, and a message that a killed child left half
written, stay in a buffer. The child's ends block, because a child has nothing else to do.
"""

import errno
import os
import struct
from collections import deque
from collections.abc import Callable

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 18
_NO_ROUTE = {
    *(errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ENETRESET)
}
"""Errors that the kernel may give a socket to a machine that is gone, in place of a time-out."""


class DriverEnds:
    """File descriptors that the driver holds of a child's pipes, each closed once."""

    def __init__(self, *fds: int):
        self._open = set(fds)

    def close(self, *fds: int) -> None:
        """Close these, or all where none is named."""
        for fd in fds or tuple(self._open):
            if fd in self._open:
                self._open.discard(fd)
                os.close(fd)


class OutgoingFrames:
    """The driver's writing end of a pipe."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self._waiting: deque[memoryview] = deque()

    @property
    def waiting(self) -> bool:
        """Whether a part of the sent frames has not fitted into the pipe yet."""
        return bool(self._waiting)

    def send(self, payload: bytes) -> None:
        """Write as much of a frame as fits; `flush` writes the rest."""
        self._waiting.append(memoryview(_LENGTH.pack(len(payload)) + payload))
        self.flush()

    def flush(self) -> None:
        """Write the bytes that fit now; those for a dead child never do."""
        while self._waiting:
            head = self._waiting[0]
            try:
                written = os.write(self.fd, head)
            except BlockingIOError:
                return
            except OSError as error:
                if not _is_gone(error):
                    raise
                self._waiting.clear()
                return
            if written == len(head):
                self._waiting.popleft()
            else:
                self._waiting[0] = head[written:]


class IncomingFrames:
    """The driver's reading end of a pipe."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.received_bytes = 0
        self.ended = False
        """Whether the writer has closed its end; a frame left half written is dropped."""
        self._buffer = bytearray()

    def receive(self) -> list[bytes]:
        """Return the whole frames that have arrived, without waiting."""
        while not self.ended:
            try:
                chunk = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                break
            except OSError as error:
                if not _is_gone(error):
                    raise
                chunk = b""
            self.ended = not chunk
            self.received_bytes += len(chunk)
            self._buffer += chunk
        return self._whole_frames()

    def _whole_frames(self) -> list[bytes]:
        frames: list[bytes] = []
        start, end = 0, len(self._buffer)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            body = start + _LENGTH.size
            if end - body < length:
                break
            start = body + length
            frames.append(bytes(memoryview(self._buffer)[body:start]))
        if start:
            del self._buffer[:start]
        return frames


def _is_gone(error: OSError) -> bool:
    """Return whether the other end is gone: a pipe breaks, a socket is reset or has no route."""
    return isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _NO_ROUTE


def read_frame(fd: int) -> bytes | None:
    """Wait for the next frame; None when the writer has closed its end."""
    header = _read_exactly(fd, _LENGTH.size)
    return None if header is None else _read_exactly(fd, _LENGTH.unpack(header)[0])


def write_frame(fd: int, payload: bytes, halfway: Callable[[], None]) -> None:
    """Write a frame, waiting for the reader if the pipe is full; call `halfway` at its middle."""
    frame = memoryview(_LENGTH.pack(len(payload)) + payload)
    middle = len(frame) // 2
    _write_all(fd, frame[:middle])
    halfway()
    _write_all(fd, frame[middle:])


def _read_exactly(fd: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size:
        part = os.read(fd, min(size, 1 << 24))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data) :]
