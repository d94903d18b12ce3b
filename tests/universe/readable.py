"""Readable: whatever is in a run folder must be a part of the training without faults.

Rows must be its first rows, checkpoints and policies must be its own, and everything that reads a
run folder must end with a value or with one sentence.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from damaged_folders import read_all

from drumline.runs import policy_files
from drumline.runs.checkpoint import checkpoint_numbers, read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.own_files import read_file
from universe.trainings import TIMED, Whole, policy_digest

ROWS = ("fingerprints.csv", "evaluations.csv", "episodes.csv")


def wrong(out: Path, whole: Whole, *, torn: bool) -> Iterator[str]:
    """Yield what is no part of the training; `torn`: files may end in what was never synced."""
    if not (out / "config.json").exists():
        return
    for name in ROWS:
        if (out / name).exists():
            lines = _whole_lines((out / name).read_bytes(), torn=torn)
            if whole.content[name].splitlines()[: len(lines)] != lines:
                yield f"{name} is no beginning"
    if (out / "metrics.csv").exists():
        rows = _untimed(_whole_lines((out / "metrics.csv").read_bytes(), torn=torn))
        if repr(rows)[:-1] != whole.content["metrics.csv"].decode()[: len(repr(rows)) - 1]:
            yield "metrics.csv is no beginning"
    folder = RunFolder.open(out)
    yield from _wrong_states(folder, whole)
    for name in policy_files.NAMES:
        if folder.policy_tensors(name).exists():
            stored = policy_files.read_policy(folder, name)
            if (name, policy_digest(stored.tensors, stored.document)) not in whole.policies:
                yield f"policy {name} is another's"


def refusals(out: Path) -> list[str]:
    """Return the sentences of readers that refuse the folder; other errors are raised."""
    return list(read_all(out))


def _wrong_states(folder: RunFolder, whole: Whole) -> Iterator[str]:
    for number in checkpoint_numbers(folder):
        checkpoint = read_checkpoint(folder, number)
        if (number, checkpoint.fingerprint) not in whole.states:
            yield f"checkpoint {number} is another's"
        for name, length in checkpoint.lengths.items():
            data = read_file(folder.path / name)[:length]
            if len(data) < length:
                yield f"checkpoint {number} counts on bytes of {name} that are not there"
            if name in whole.segments and whole.segments[name][:length] != data:
                yield f"{name} is no beginning"


def _whole_lines(data: bytes, *, torn: bool) -> list[bytes]:
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [line for line in lines if b"\0" not in line] if torn else lines


def _untimed(lines: list[bytes]) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(b"\n".join(lines).decode()))
    return [
        {name: value for name, value in row.items() if not any(word in name for word in TIMED)}
        for row in rows
    ]
