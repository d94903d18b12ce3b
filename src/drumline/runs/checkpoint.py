"""Checkpoints: all learned state at one update, written in one step and verified when read."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy

from drumline.runs.atomic_files import make_synced_directory, sync_directory, write_synced
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.manifest import (
    Damage,
    Manifest,
    read_counters,
    read_manifest,
    render_counters,
    render_manifest,
    state_fingerprint,
    storable,
    verify_tensors,
)
from drumline.runs.next_commands import by_path
from drumline.runs.own_files import is_there, read_file
from drumline.types import State

KEPT = 3
"""Number of checkpoints kept: two can be damaged without losing the run."""

STATE_FILE = "state.safetensors"
COUNTERS_FILE = "counters.json"
MANIFEST_FILE = "manifest.json"
BEST_FILE = "policy-best.safetensors"
"""The run's best policy at the checkpoint, if it had one; a policy file has a digest of its own."""


class DamagedCheckpoint(RunError):
    """A checkpoint that fails its hashes; `previous` is the newest intact older one."""

    def __init__(self, message: str, previous: int | None):
        super().__init__(message)
        self.previous = previous


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read, with every hash verified."""

    update: int
    state: State
    lengths: dict[str, int]
    """Byte length of every append-only file at the time of the checkpoint."""
    extra: dict[str, Any]
    fingerprint: str
    chained: str
    """Head of the hash chain; empty before the chain's first row."""
    beside: tuple[int, ...] = ()
    """Updates of all checkpoints that there were when this one was read."""


def checkpoint_numbers(folder: RunFolder) -> list[int]:
    """Return the updates that have a checkpoint, oldest first; their contents are not verified."""
    names = [path.name for path in folder.checkpoints.glob("*")]
    replaced = [name[1 : -len(".replaced")] for name in names if name.endswith(".replaced")]
    return sorted({int(name) for name in (*names, *replaced) if name.isdecimal()})


def write_checkpoint(
    folder: RunFolder,
    update: int,
    state: State,
    lengths: dict[str, int],
    extra: dict[str, Any],
    *,
    chained: str = "",
    best: Path | None = None,
    probe: Callable[[str], None] = lambda point: None,
) -> str:
    """Write checkpoints/<update>/ in one step, keep the last 3; return the state's fingerprint.

    `best` is the policy file that is the run's best; it is never written again, only replaced.
    """
    if make_synced_directory(folder.checkpoints):
        sync_directory(folder.path.parent)  # the folder's first checkpoint: its own name, too
    clear_leftovers(folder)
    tensors = safetensors.numpy.save(storable(state.tensors))
    manifest = Manifest.of(update, state, lengths, extra, chained)
    aside = folder.checkpoints / f".{update}.partial"
    if aside.is_dir():  # it could not be removed
        aside.replace(aside.with_name(f".{update}.{os.urandom(8).hex()}.partial"))
    try:
        aside.mkdir()
        probe("checkpoint-begun")
        write_synced(aside / STATE_FILE, tensors)
        write_synced(aside / COUNTERS_FILE, render_counters(state.counters))
        probe("tensors-written")
        if best is not None and is_there(best):
            write_synced(aside / BEST_FILE, read_file(best))
        write_synced(aside / MANIFEST_FILE, render_manifest(manifest, tensors))
        sync_directory(aside)
        probe("before-rename")
        _put_in_place(aside, folder.checkpoints / str(update))
        probe("after-rename")
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)  # give back the room on a full disk
        raise
    for number in checkpoint_numbers(folder)[:-KEPT]:
        remove_checkpoint(folder, number)
    return manifest.fingerprint


def best_policy_file(folder: RunFolder, number: int) -> Path:
    """Return the path of a checkpoint's best policy, which a run without evaluations lacks."""
    return _place(folder, number) / BEST_FILE


def read_checkpoint(folder: RunFolder, number: int | None = None) -> Checkpoint:
    """Read a checkpoint (default: the newest) and verify every byte of it."""
    numbers = checkpoint_numbers(folder)
    if not numbers:
        raise RunError(
            f"{folder.shown} has no checkpoint to go on from; start the run again with "
            "drumline train and another --out"
        )
    chosen = numbers[-1] if number is None else number
    if chosen not in numbers:
        listed = ", ".join(map(str, numbers))
        raise RunError(f"{folder.shown} has no checkpoint {chosen}; --checkpoint may be {listed}")
    try:
        return replace(_read(folder, chosen), beside=tuple(numbers))
    except Damage as damage:
        previous = _newest_good(folder, [other for other in numbers if other < chosen])
        advice = (
            f"go on from the one before: {by_path(folder, 'resume', '--checkpoint', str(previous))}"
            if previous is not None
            else "no older one is good, so start the run again with another --out"
        )
        raise DamagedCheckpoint(
            f"checkpoint {chosen} of {folder.shown} is damaged: {damage}; {advice}", previous
        ) from damage


def kept_lengths(folder: RunFolder) -> set[str]:
    """Return the append-only files that any kept checkpoint counts on, with their lengths."""
    names: set[str] = set()
    for number in checkpoint_numbers(folder):
        try:
            raw = _bytes_of(_place(folder, number) / MANIFEST_FILE)
            names.update(read_manifest(raw, number)[0].lengths)
        except Damage:
            continue  # a checkpoint without a readable manifest cannot be resumed
    return names


def remove_checkpoint(folder: RunFolder, number: int) -> None:
    """Remove a checkpoint. It is renamed first, so that a kill never leaves half of one."""
    aside = folder.checkpoints / f".{number}.partial"
    _place(folder, number).replace(aside)
    _remove(aside)


def clear_leftovers(folder: RunFolder) -> None:
    """Remove leftovers of writes that a kill interrupted. Only the run's one writer may call it."""
    for path in sorted(folder.checkpoints.glob(".*.partial")):
        _remove(path)
    for path in sorted(folder.checkpoints.glob(".*.replaced")):
        finished = folder.checkpoints / path.name[1 : -len(".replaced")]
        if finished.is_dir():
            _remove(path)
        else:
            path.replace(finished)


def _put_in_place(aside: Path, final: Path) -> None:
    replaced = final.with_name(f".{final.name}.replaced")
    if final.is_dir():
        # A directory cannot be renamed over another, so readers know this name too.
        final.replace(replaced)
    aside.replace(final)
    sync_directory(final.parent)
    if replaced.is_dir():
        _remove(replaced)


def _remove(leftover: Path) -> None:
    """Remove a directory that counts no more, or what can be removed of it; the rest stays aside.

    On NFS a file that an upload still reads keeps its directory from being removed.
    """
    shutil.rmtree(leftover, ignore_errors=True)


def _place(folder: RunFolder, number: int) -> Path:
    path = folder.checkpoints / str(number)
    return path if path.is_dir() else folder.checkpoints / f".{number}.replaced"


def _newest_good(folder: RunFolder, numbers: list[int]) -> int | None:
    for number in reversed(numbers):
        try:
            _read(folder, number)
        except Damage:
            continue
        return number
    return None


def _read(folder: RunFolder, number: int) -> Checkpoint:
    place = _place(folder, number)
    manifest, stored_bytes = read_manifest(_bytes_of(place / MANIFEST_FILE), number)
    counters = read_counters(_bytes_of(place / COUNTERS_FILE), manifest)
    raw = _bytes_of(place / STATE_FILE)
    try:
        tensors = safetensors.numpy.load(raw)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Damage(f"{STATE_FILE} cannot be read ({error})") from error
    verify_tensors(tensors, raw, manifest, stored_bytes)
    return Checkpoint(
        manifest.update,
        State(tensors, counters),
        manifest.lengths,
        manifest.extra,
        manifest.fingerprint,
        manifest.chained,
    )


def _bytes_of(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise Damage(f"{path.name} cannot be read ({error.strerror})") from error


__all__ = [
    "Checkpoint",
    "DamagedCheckpoint",
    "best_policy_file",
    "checkpoint_numbers",
    "clear_leftovers",
    "kept_lengths",
    "read_checkpoint",
    "remove_checkpoint",
    "state_fingerprint",
    "write_checkpoint",
]
