"""Whole-file writes of which neither a reader, a kill nor a full disk ever leaves a part."""

import os
from pathlib import Path

from drumline.runs.own_files import aside_name, opened


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk; an OSError names the file.

    Raises FileExistsError if there is anything at `path`, be it a link that leads nowhere.
    """
    try:
        with os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # An OSError of `write` carries no file name, unlike one of `open`.
        raise OSError(error.errno, error.strerror, str(path)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace `path` in one step: write a temporary file, sync it, rename it.

    A link at `path` is replaced and not followed.
    """
    aside = path.with_name(aside_name(path.name))
    try:
        write_synced(aside, data)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # give back the room on a full disk
        raise
    sync_directory(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Make a file in one step; FileExistsError if it is there, perhaps since a moment."""
    aside = path.with_name(aside_name(path.name))
    try:
        write_synced(aside, data)
        try:
            os.link(aside, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    sync_directory(path.parent)


def make_synced_directory(path: Path) -> bool:
    """Make a directory whose name survives a power cut; return whether it was not there."""
    if path.is_dir():
        return False
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)
    return True


def make_synced_directories(path: Path) -> None:
    """Make a directory and those above it, whose names survive a power cut; it may be there."""
    if not path.is_dir():
        if path != path.parent:
            make_synced_directories(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Sync the directory, so that renames inside `path` survive a power cut."""
    sync(path)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
