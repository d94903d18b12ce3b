"""`printed.txt` of a run folder: what its environments printed, the newest 10 MiB at most."""

import os
from contextlib import suppress
from pathlib import Path

from drumline.runs.folder import RunFolder
from drumline.runs.own_files import opened

LIMIT = 10 << 20
"""Bytes of the file at most; older lines make room."""

_HELD = 1 << 16
_LAST = 200


class PrintedFile:
    """Keeps lines in memory until it has a place; nothing that fails here fails the run."""

    def __init__(self, limit: int = LIMIT):
        self.lines = 0
        self.path: Path | None = None
        self.shown = ""
        """Name of the file in messages."""
        self._limit = limit
        self._held = b""
        """The newest bytes: all that there is before the file has a place."""
        self._fd: int | None = None
        self._size = 0
        self._failed = False

    @property
    def last(self) -> str:
        """Return the last line that was printed, cut to 200 characters."""
        words = self._held.rstrip().rpartition(b"\n")[2].decode("utf-8", "replace")
        return words if len(words) <= _LAST else f"{words[:_LAST]}…"

    @property
    def held(self) -> str:
        """Return the newest lines, 64 KiB at most."""
        return self._held.decode("utf-8", "replace")

    def into(self, folder: RunFolder) -> None:
        """Write to a run folder's file from now on, with what came before.

        No file is made before there is a line.
        """
        self.path = folder.printed_txt
        self.shown = str(Path(folder.shown, self.path.name))
        if self._held:
            self._append(self._held)

    def write(self, data: bytes) -> None:
        """Keep what was printed."""
        self.lines += data.count(b"\n")
        self._held = (self._held + data)[-_HELD:]
        if self.path is not None:
            self._append(data)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _append(self, data: bytes) -> None:
        if self._failed or self.path is None:
            return
        try:
            if self._fd is None:
                self._fd = opened(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
                self._size = os.fstat(self._fd).st_size
            if self._size + len(data) > self._limit:
                data = self._shortened(self._fd, data)
                os.ftruncate(self._fd, 0)
                self._size = 0
            os.write(self._fd, data)
            self._size += len(data)
        except (OSError, ValueError):  # a full disk, or a link in its place
            self._failed = True
            with suppress(OSError):
                self.close()

    def _shortened(self, fd: int, data: bytes) -> bytes:
        """Return the newest half of the file with `data` behind it, from the start of a line on."""
        half = self._limit // 2
        before = os.pread(fd, half, max(0, self._size - half))
        kept = (before + data)[-half:]
        return kept.partition(b"\n")[2]
