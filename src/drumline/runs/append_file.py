"""AppendFile: a file that only grows, with its length in bytes known at every row."""

import os
from collections.abc import Iterator
from pathlib import Path

from drumline.runs.atomic_files import sync_directory
from drumline.runs.own_files import opened
from drumline.runs.run_error import RunError

LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read; a longer one is damage."""


class AppendFile:
    """A file that only grows. Rows wait in memory until `flush`; `length` already counts them."""

    def __init__(self, path: Path):
        self.path = path
        self._named = path.exists()
        """Whether the directory's entry of the file is on the disk."""
        descriptor = opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._waiting: list[bytes] = []
        self.length = os.fstat(descriptor).st_size

    def append(self, data: bytes) -> None:
        """Append bytes at the end."""
        self._waiting.append(data)
        self.length += len(data)

    def flush(self) -> None:
        """Hand waiting bytes to the operating system; an OSError (a full disk) names the file."""
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def sync(self) -> None:
        """Flush and wait for the disk: a manifest must not count rows that a power cut can lose.

        The first time the directory is synced too, or the file's name could be lost.
        """
        self.flush()
        os.fsync(self._file.fileno())
        if not self._named:
            sync_directory(self.path.parent)
            self._named = True

    def close(self) -> None:
        """Close without flushing."""
        self._file.close()


def cut_unfinished_line(path: Path) -> None:
    """Cut a text file behind its last whole line."""
    descriptor = opened(path, os.O_RDWR)
    try:
        size = end = os.fstat(descriptor).st_size
        while end and os.pread(descriptor, 1, end - 1) != b"\n":
            end -= 1
        if end < size:
            os.ftruncate(descriptor, end)
    finally:
        os.close(descriptor)


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield a file's complete lines without their ends, one in memory at a time.

    An incomplete last line (a kill, a full disk) is left out.
    """
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        number = 0
        while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
            number += 1
            yield line[:-1]
        if len(line) == LONGEST_LINE:
            raise RunError(
                f"{path} is damaged: line {number + 1} is longer than {LONGEST_LINE} bytes; "
                "give another RUN"
            )
