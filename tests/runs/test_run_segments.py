"""Segments of a replay: written once, cut by a resume, removed when no checkpoint needs them."""

from pathlib import Path

import pytest
from runs.runs_examples import example_record, example_state, new_folder

from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.recorder import Recorder
from drumline.runs.segments import read_segment, segments_there


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(tmp_path / "run")


def name(number: int) -> str:
    return f"replay/{number:06d}"


def record(recorder: Recorder, updates: range) -> None:
    """Update k appends to segments k and k + 1, and counts on those two."""
    for update in updates:
        recorder.update(example_record(update))
        recorder.segment(name(update), b"b" * update)
        recorder.segment(name(update + 1), b"a" * update)
        needed = [name(update), name(update + 1)]
        recorder.checkpoint(update, example_state(update), {}, needed)


def test_only_segments_that_a_kept_checkpoint_counts_on_stay(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 8))
    recorder.close()
    assert segments_there(folder) == [name(number) for number in (5, 6, 7, 8)]


@pytest.mark.parametrize("number", [5, 6, 7])
def test_every_kept_checkpoint_finds_its_segments_as_they_were(folder: RunFolder, number: int):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 8))
    recorder.close()
    saved = read_checkpoint(folder, number)
    assert read_segment(folder, saved, name(number)) == b"a" * (number - 1) + b"b" * number
    assert read_segment(folder, saved, name(number + 1)) == b"a" * number


def test_a_resumed_run_writes_the_same_segments(folder: RunFolder, tmp_path: Path):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 8))
    recorder.close()
    whole = {n: (folder.path / n).read_bytes() for n in segments_there(folder)}
    saved = read_checkpoint(folder, 6)
    recorder = Recorder(folder, tensorboard=False, resumed_from=saved)
    assert segments_there(folder) == [name(number) for number in (5, 6, 7)]
    record(recorder, range(7, 8))
    recorder.close()
    assert {n: (folder.path / n).read_bytes() for n in segments_there(folder)} == whole


def test_a_segment_that_lost_bytes_is_named(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 4))
    recorder.close()
    (folder.path / name(3)).write_bytes(b"b")
    saved = read_checkpoint(folder)
    with pytest.raises(RunError, match=r"replay/000003 has lost transitions"):
        read_segment(folder, saved, name(3))
    with pytest.raises(RunError, match="rows are lost"):
        Recorder(folder, tensorboard=False, resumed_from=saved)


def test_a_run_without_a_checkpoint_begins_without_segments(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    recorder.segment(name(0), b"rows that no checkpoint counts")
    recorder.close()
    Recorder(folder, tensorboard=False).close()
    assert segments_there(folder) == []
