"""Disk: what of a run folder is left after a power loss that nothing but `fsync` guards against.

A file keeps the bytes that it had at its last sync, and perhaps a part or all of those written
since, or zeros in the place of these. A directory keeps the names that it had at its last sync;
each later change of a name may be lost or not. This is what POSIX allows and what journalling file
systems do at worst.
"""

import os
import random
from pathlib import Path


class Disk:
    """Contents and names of one folder, as of their last syncs."""

    def __init__(self, root: Path, rng: random.Random):
        self._root = root
        self._rng = rng
        self._files: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: dict[int, int] = {}
        """Descriptors of all that is noted: a file system gives no other file their numbers."""

    def synced(self, fd: int) -> None:
        """Note a sync of a real descriptor."""
        path = Path(f"/proc/self/fd/{fd}").resolve()
        if path.is_dir():
            self._names[self._held_number(fd)] = _names(path)
        elif path.is_file():
            self._files[self._held_number(fd)] = path.read_bytes()

    def close(self) -> None:
        """Let the numbers go."""
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()

    def lose_power(self) -> None:
        """Change the folder to what a power loss now may leave."""
        if self._root.is_dir():
            self._lose(self._root)

    def _held_number(self, fd: int) -> int:
        number = os.fstat(fd).st_ino
        if number not in self._held:
            self._held[number] = os.dup(fd)
        return number

    def _number(self, path: Path) -> int:
        fd = os.open(path, os.O_RDONLY)
        try:
            return self._held_number(fd)
        finally:
            os.close(fd)

    def _lose(self, folder: Path) -> None:
        number = self._number(folder)
        kept = self._names.get(number, {})
        now = _names(folder)
        for name in sorted({*kept, *now}):
            path = folder / name
            if name in now and kept.get(name) == now[name]:
                self._lose_content(path)
            elif self._rng.random() < 0.5:  # the change of this name is lost
                self._undo(path, kept.get(name))
            elif name in now:
                self._lose_content(path)
        self._names[number] = _names(folder)

    def _lose_content(self, path: Path) -> None:
        if path.is_dir():
            self._lose(path)
            return
        number, data = self._number(path), path.read_bytes()
        safe = self._files.get(number, b"")
        choices = [safe, data]
        if data.startswith(safe):
            part = data[: self._rng.randint(len(safe), len(data))]
            choices += [part, part.ljust(len(data), b"\0")]
        left = self._rng.choice(choices)
        path.write_bytes(left)
        self._files[number] = left

    def _undo(self, path: Path, before: int | None) -> None:
        """Take a change of a name back: the file of before is there again, if there was one."""
        if path.is_dir():
            if before is None:
                for inner in sorted(path.rglob("*"), reverse=True):
                    inner.rmdir() if inner.is_dir() else inner.unlink()
                path.rmdir()
            return
        path.unlink(missing_ok=True)
        if before is not None and before in self._files:
            path.write_bytes(self._files[before])
            self._files[self._number(path)] = self._files[before]


def _names(folder: Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}
