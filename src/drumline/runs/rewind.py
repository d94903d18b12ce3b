"""Rewinding to a checkpoint: everything written after it is cut off and will be written again."""

import os
from pathlib import Path

from drumline.runs.atomic_files import sync_directory
from drumline.runs.checkpoint import (
    Checkpoint,
    checkpoint_numbers,
    clear_leftovers,
    kept_lengths,
    remove_checkpoint,
)
from drumline.runs.folder import APPEND_ONLY, RunError, RunFolder
from drumline.runs.own_files import opened, size_of
from drumline.runs.segments import is_segment, segments_there


def rewind(folder: RunFolder, checkpoint: Checkpoint) -> None:
    """Make `checkpoint` the newest and cut the append-only files to it; may be repeated."""
    _check_lengths(folder, checkpoint.lengths)
    if folder.checkpoints.is_dir():
        clear_leftovers(folder)
        # Before the cut, because a newer checkpoint counts on rows that the cut removes.
        for number in checkpoint_numbers(folder):
            if number > checkpoint.update:
                remove_checkpoint(folder, number)
    sync_names(folder, checkpoint.lengths)
    cut_files(folder, checkpoint.lengths)


def sync_names(folder: RunFolder, lengths: dict[str, int]) -> None:
    """Sync the names that are there already: a kill may have come between their making and that.

    `lengths` are those of a checkpoint that the run goes on from.
    """
    places = {(folder.path / name).parent for name in lengths}
    for place in sorted({folder.checkpoints, *places, folder.path, folder.path.parent}):
        if place.is_dir():
            sync_directory(place)


def cut_files(folder: RunFolder, lengths: dict[str, int]) -> None:
    """Cut every append-only file to its length in the manifest; remove files not named there."""
    _check_lengths(folder, lengths)
    needed = kept_lengths(folder)  # an older checkpoint counts on segments that this one does not
    for name in (*APPEND_ONLY, *segments_there(folder)):
        path = folder.path / name
        if name in lengths:
            _cut(path, lengths[name])
        elif name not in needed:
            path.unlink(missing_ok=True)


def _cut(path: Path, length: int) -> None:
    descriptor = opened(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, length)
    finally:
        os.close(descriptor)


def _check_lengths(folder: RunFolder, lengths: dict[str, int]) -> None:
    for name, length in lengths.items():
        if name not in APPEND_ONLY and not is_segment(name):
            raise RunError(
                f"the checkpoint names {name!r}, which is no append-only file of a run folder; "
                "go on from an older one with --checkpoint"
            )
        path = folder.path / name
        found = size_of(path)
        if found is None or found < length:
            raise RunError(
                f"{path} has {found or 0} bytes, but the checkpoint was written at {length}: "
                "rows are lost; go on from an older one with --checkpoint"
            )
