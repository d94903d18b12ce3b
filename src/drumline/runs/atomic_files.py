"""Writing a whole file so that a reader, a kill or a full disk never sees half of it."""

import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """Write `data` and wait until the disk has it; a failure names the file."""
    try:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # A failed write (unlike a failed open) carries no file name.
        raise OSError(error.errno, error.strerror, str(path)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path` in one step: written aside, synced, renamed."""
    aside = path.with_name(f".{path.name}.partial")
    try:
        write_synced(aside, data)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # on a full disk every byte counts
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames inside `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
