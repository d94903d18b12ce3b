"""Segments: append-only files under replay/ and scalars/ that a run's checkpoints share."""

import re

from drumline.runs.checkpoint import Checkpoint, kept_lengths
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.own_files import read_file

_ROOMS = ("replay", "scalars")
_NAME = re.compile(rf"({'|'.join(_ROOMS)})/\d{{6,}}")


def is_segment(name: str) -> bool:
    """Return whether an append-only file is a segment.

    >>> is_segment("replay/000003"), is_segment("replay/../config.json")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def segments_there(folder: RunFolder) -> list[str]:
    """Return the names of the folder's segments, oldest first."""
    names = [f"{room}/{path.name}" for room in _ROOMS for path in (folder.path / room).glob("*")]
    return sorted(name for name in names if is_segment(name))


def read_segment(folder: RunFolder, checkpoint: Checkpoint, name: str) -> bytes:
    """Return a segment's bytes at its length of the checkpoint; RunError if it is shorter."""
    length = checkpoint.lengths.get(name)
    try:
        data = read_file(folder.path / name, length or 0)[: length or 0]
    except OSError:
        data = b""
    if length is None or len(data) < length:
        raise RunError(
            f"{folder.path / name} has lost transitions that checkpoint {checkpoint.update} "
            "counts on; go on from an older one with --checkpoint"
        )
    return data


def remove_unneeded(folder: RunFolder) -> None:
    """Remove segments that no kept checkpoint counts on; called after a checkpoint is written."""
    there = segments_there(folder)
    needed = kept_lengths(folder) if there else set()
    for name in there:
        if name not in needed:
            (folder.path / name).unlink()
