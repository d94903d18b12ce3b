"""Snapshot: the files of a run folder at one moment, held open while they are uploaded."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drumline.runs.checkpoint import (
    BEST_FILE,
    COUNTERS_FILE,
    MANIFEST_FILE,
    STATE_FILE,
    checkpoint_numbers,
)
from drumline.runs.folder import APPEND_ONLY, RunFolder
from drumline.runs.manifest import Damage, read_manifest
from drumline.runs.own_files import FILES, opened, read_file
from drumline.runs.run_error import RunError
from drumline.stores.stored_state import PIECE

_CHANGING = frozenset((*APPEND_ONLY, "printed.txt", "episode.mp4"))


class SnapshotGone(Exception):
    """A file of the snapshot was removed or cut before it was opened or read."""


@dataclass(frozen=True)
class OpenFile:
    """A file of a snapshot."""

    path: str
    descriptor: int
    length: int
    grows: bool
    """Whether its bytes never change, so that a full piece stays as it is."""

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, bytes) of the pieces."""
        for offset in range(0, self.length, PIECE):
            yield offset, min(PIECE, self.length - offset)

    def read(self, offset: int, size: int) -> bytes:
        """Return a piece's bytes."""
        data = b""
        while len(data) < size:
            part = os.pread(self.descriptor, size - len(data), offset + len(data))
            if not part:
                raise SnapshotGone(self.path)
            data += part
        return data


class Snapshot:
    """Open files. One that the run removes or replaces meanwhile keeps its bytes here."""

    def __init__(self, update: int, *, last: bool):
        self.update = update
        self.last = last
        """Whether it is that of a closed run."""
        self.files: list[OpenFile] = []

    @staticmethod
    def at_checkpoint(folder: RunFolder, update: int) -> "Snapshot":
        """Open the newest checkpoint and what it counts on; the run's recorder thread calls it."""
        return _opened(folder, Snapshot(update, last=False))

    @staticmethod
    def at_end(folder: RunFolder) -> "Snapshot | None":
        """Open the newest checkpoint and all files of a closed run; None without a checkpoint."""
        numbers = checkpoint_numbers(folder)
        return _opened(folder, Snapshot(numbers[-1], last=True)) if numbers else None

    def open(self, folder: RunFolder, path: str, length: int | None, *, grows: bool) -> None:
        """Add a file at a length; None: as long as it is."""
        try:
            descriptor = opened(folder.path / path, os.O_RDONLY)
        except (OSError, RunError) as error:
            raise SnapshotGone(path) from error
        found = os.fstat(descriptor).st_size
        self.files.append(OpenFile(path, descriptor, found if length is None else length, grows))
        if length is not None and found < length:
            raise SnapshotGone(path)

    def close(self) -> None:
        """Close the files; may be called twice."""
        while self.files:
            os.close(self.files.pop().descriptor)


def _opened(folder: RunFolder, snapshot: Snapshot) -> Snapshot:
    place = Path("checkpoints") / str(snapshot.update)
    try:
        manifest, _ = read_manifest(read_file(folder.path / place / MANIFEST_FILE), snapshot.update)
        # The most needed first: what is uploaded when a grace time ends is not uploaded again.
        for name in (STATE_FILE, COUNTERS_FILE, MANIFEST_FILE):
            snapshot.open(folder, str(place / name), None, grows=False)
        for name, length in manifest.lengths.items():
            whole = snapshot.last and name in APPEND_ONLY
            snapshot.open(folder, name, None if whole else length, grows=True)
        have = {file.path for file in snapshot.files}
        # Files that change in place only at the end, when they no longer do.
        kept = FILES - {"episode.mp4"} if snapshot.last else FILES - _CHANGING
        for name in (str(place / BEST_FILE), *sorted(kept)):
            if name not in have:
                with suppress(SnapshotGone):  # not every run has every file
                    snapshot.open(folder, name, None, grows=name in APPEND_ONLY)
    except (Damage, OSError) as error:
        snapshot.close()
        raise SnapshotGone(str(place)) from error
    except BaseException:
        snapshot.close()
        raise
    return snapshot
