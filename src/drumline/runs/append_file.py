"""A file that only grows, with its length known at every row."""

import os
from pathlib import Path


class AppendFile:
    """Rows wait in memory until `flush`; `length` counts them already."""

    def __init__(self, path: Path):
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._waiting: list[bytes] = []
        self.length = path.stat().st_size

    def append(self, data: bytes) -> None:
        """Add bytes behind all earlier ones."""
        self._waiting.append(data)
        self.length += len(data)

    def flush(self) -> None:
        """Hand what waits to the system; a full disk raises here, with the file's name."""
        data = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def sync(self) -> None:
        """Flush, and wait until the disk has it: a manifest must not count rows that can vanish."""
        self.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close without flushing."""
        self._file.close()


def whole_lines(path: Path) -> list[str]:
    """Return a file's lines; half a last one, left by a kill or a full disk, does not count."""
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()
