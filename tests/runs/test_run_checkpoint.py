import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from runs.runs_examples import example_state, new_folder

from drumline.runs.checkpoint import (
    DamagedCheckpoint,
    checkpoint_numbers,
    clear_leftovers,
    read_checkpoint,
    state_fingerprint,
    write_checkpoint,
)
from drumline.runs.folder import RunError, RunFolder
from drumline.types import State

POINTS = ("checkpoint-begun", "tensors-written", "before-rename", "after-rename")
FILES = ("state.safetensors", "counters.json", "manifest.json")


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


def write(folder: RunFolder, update: int, **more) -> str:
    lengths = {"metrics.csv": 10 * update}
    return write_checkpoint(folder, update, example_state(update), lengths, {"k": update}, **more)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(tmp_path / "run")


def assert_equal_states(one: State, other: State) -> None:
    assert one.counters == other.counters
    assert one.tensors.keys() == other.tensors.keys()
    for name, array in one.tensors.items():
        found = other.tensors[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.writeable


def test_a_checkpoint_whose_files_cannot_be_removed_stops_no_other(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    """On NFS a file that is open elsewhere keeps its directory."""

    def kept(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(39, "Directory not empty")

    monkeypatch.setattr("shutil.rmtree", kept)
    for update in (1, 2, 3, 4, 1, 5):
        write_checkpoint(folder, update, example_state(update), {}, {})
    assert checkpoint_numbers(folder)[-2:] == [4, 5]
    assert read_checkpoint(folder, 5).update == 5
    monkeypatch.undo()
    write_checkpoint(folder, 6, example_state(6), {}, {})
    assert not [path.name for path in folder.checkpoints.iterdir() if path.name.startswith(".")]


def test_checkpoint_comes_back_with_the_same_bits(folder: RunFolder):
    fingerprint = write(folder, 4, chained="ab")
    checkpoint = read_checkpoint(folder)
    assert_equal_states(example_state(4), checkpoint.state)
    assert checkpoint.update == 4
    assert checkpoint.lengths == {"metrics.csv": 40}
    assert checkpoint.extra == {"k": 4}
    assert checkpoint.chained == "ab"
    assert checkpoint.fingerprint == fingerprint == state_fingerprint(checkpoint.state)


def test_every_file_is_on_the_disk_before_a_checkpoint_gets_its_name(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"{path.name} -> {target.name}")
        return replace(path, target)

    folder.checkpoints.mkdir()
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write(folder, 4)
    # The last one is the folder that has the name.
    assert done == [*FILES, ".4.partial", ".4.partial -> 4", "checkpoints"]


def test_big_endian_and_strided_tensors_come_back_with_the_same_numbers(folder: RunFolder):
    state = State({"big": np.arange(3, dtype=">f8"), "strided": np.arange(12).reshape(3, 4).T})
    fingerprint = write_checkpoint(folder, 0, state, {}, {})
    checkpoint = read_checkpoint(folder)
    for name, array in state.tensors.items():
        np.testing.assert_array_equal(checkpoint.state.tensors[name], array)
    assert checkpoint.fingerprint == fingerprint


def test_no_counter_loses_its_type_or_a_bit(folder: RunFolder):
    counters = {"zero": -0.0, "one": 1, "one_float": 1.0, "tiny": 5e-324, "nan": np.nan}
    write_checkpoint(folder, 0, State({}, counters), {}, {})
    found = read_checkpoint(folder).state.counters
    assert {name: repr(v) for name, v in found.items()} == {n: repr(v) for n, v in counters.items()}


@pytest.mark.parametrize("value", ["5", None, np.int64(3)])
def test_counter_that_is_no_plain_number_is_refused(folder: RunFolder, value):
    with pytest.raises(ValueError, match="counter 'c'"):
        write_checkpoint(folder, 0, State({}, {"c": value}), {}, {})


def test_tensor_that_would_not_come_back_is_refused(folder: RunFolder):
    with pytest.raises(ValueError, match="tensor 't' has dtype object"):
        write_checkpoint(folder, 0, State({"t": np.array([None])}), {}, {})


def last_bit_flipped(array: np.ndarray) -> np.ndarray:
    raw = bytearray(array.tobytes())
    raw[-1] ^= 1
    return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)


@pytest.mark.parametrize("name", [n for n, a in example_state().tensors.items() if a.size])
def test_last_bit_of_every_tensor_is_in_the_fingerprint(name: str):
    state = example_state()
    flipped = {**state.tensors, name: last_bit_flipped(state.tensors[name])}
    assert state_fingerprint(State(flipped, state.counters)) != state_fingerprint(state)


@pytest.mark.parametrize("name", example_state().counters)
def test_every_counter_is_in_the_fingerprint(name: str):
    state = example_state()
    value = state.counters[name]
    change = value + 1 if isinstance(value, int) else float(np.nextafter(value, 1.0))
    changed = {**state.counters, name: change}
    assert state_fingerprint(State(state.tensors, changed)) != state_fingerprint(state)


def test_name_dtype_shape_and_kind_are_in_the_fingerprint():
    zeros = np.zeros(4, np.float32)
    states = [
        State({"a": zeros}),
        State({"b": zeros}),
        State({"a": zeros.reshape(2, 2)}),
        State({"a": zeros.view(np.int32)}),
        State({"a": zeros, "b": zeros}),
        State({}, {"a": 0}),
        State({}, {"a": 0.0}),
        State({}, {"a": -0.0}),
        State({}, {}),
    ]
    assert len({state_fingerprint(state) for state in states}) == len(states)


def test_order_of_names_is_not_in_the_fingerprint():
    state = example_state()
    tensors = dict(reversed(state.tensors.items()))
    counters = dict(reversed(state.counters.items()))
    assert state_fingerprint(State(tensors, counters)) == state_fingerprint(state)


@pytest.mark.parametrize("name", example_state().tensors)
def test_checkpoint_without_one_tensor_is_refused_by_its_name(folder: RunFolder, name: str):
    write(folder, 1)
    path = folder.checkpoints / "1" / "state.safetensors"
    tensors = safetensors.numpy.load(path.read_bytes())
    del tensors[name]
    path.write_bytes(safetensors.numpy.save(tensors))
    with pytest.raises(DamagedCheckpoint, match=f"tensor '{name}' is missing"):
        read_checkpoint(folder)


@pytest.mark.parametrize("name", example_state().counters)
def test_checkpoint_without_one_counter_is_refused_by_its_name(folder: RunFolder, name: str):
    write(folder, 1)
    path = folder.checkpoints / "1" / "counters.json"
    counters = json.loads(path.read_bytes())
    del counters[name]
    path.write_text(json.dumps(counters))
    with pytest.raises(DamagedCheckpoint, match=f"counter '{name}' is missing"):
        read_checkpoint(folder)


@pytest.mark.parametrize("name", [n for n, a in example_state().tensors.items() if a.size])
def test_flipped_bit_names_its_tensor_and_offers_the_checkpoint_before(
    folder: RunFolder, name: str
):
    write(folder, 1)
    write(folder, 2)
    path = folder.checkpoints / "2" / "state.safetensors"
    tensors = safetensors.numpy.load(path.read_bytes())
    tensors[name] = last_bit_flipped(tensors[name])
    path.write_bytes(safetensors.numpy.save(tensors))
    with pytest.raises(DamagedCheckpoint, match=f"tensor '{name}'.*--checkpoint 1") as caught:
        read_checkpoint(folder)
    assert caught.value.previous == 1
    assert read_checkpoint(folder, 1).update == 1


@pytest.mark.parametrize("file", FILES)
def test_every_single_flipped_bit_is_noticed(folder: RunFolder, file: str):
    write(folder, 1)
    path = folder.checkpoints / "1" / file
    good = path.read_bytes()
    for offset in range(len(good)):
        bad = bytearray(good)
        bad[offset] ^= 1 << (offset % 8)
        path.write_bytes(bad)
        with pytest.raises(DamagedCheckpoint, match=r"checkpoint 1 .*no older one is good"):
            read_checkpoint(folder)
    path.write_bytes(good)
    assert read_checkpoint(folder).update == 1


@pytest.mark.parametrize("file", FILES)
def test_truncation_anywhere_is_noticed_and_the_file_named(folder: RunFolder, file: str):
    write(folder, 1)
    write(folder, 2)
    path = folder.checkpoints / "2" / file
    good = path.read_bytes()
    for length in {0, 1, 7, 8, 9, len(good) // 2, len(good) - 2, len(good) - 1}:
        path.write_bytes(good[:length])
        with pytest.raises(DamagedCheckpoint, match=file) as caught:
            read_checkpoint(folder)
        assert caught.value.previous == 1
    path.write_bytes(good + b" ")
    with pytest.raises(DamagedCheckpoint, match=file):
        read_checkpoint(folder)
    path.unlink()
    with pytest.raises(DamagedCheckpoint, match=file):
        read_checkpoint(folder)


def test_the_offered_checkpoint_is_the_newest_good_one(folder: RunFolder):
    for update in (1, 2, 3):
        write(folder, update)
    for update in (2, 3):
        (folder.checkpoints / str(update) / "manifest.json").write_text("{}")
    with pytest.raises(DamagedCheckpoint) as caught:
        read_checkpoint(folder)
    assert caught.value.previous == 1


def test_checkpoint_under_another_number_is_refused(folder: RunFolder):
    write(folder, 1)
    shutil.copytree(folder.checkpoints / "1", folder.checkpoints / "5")
    with pytest.raises(DamagedCheckpoint, match="is that of checkpoint 1"):
        read_checkpoint(folder)


def test_a_run_without_checkpoints_and_an_unknown_number_are_refused(folder: RunFolder):
    with pytest.raises(RunError, match="no checkpoint to go on from"):
        read_checkpoint(folder)
    write(folder, 1)
    with pytest.raises(RunError, match="no checkpoint 9; --checkpoint may be 1"):
        read_checkpoint(folder, 9)


def test_the_last_three_stay(folder: RunFolder):
    for update in (1, 2, 9, 10, 11):
        write(folder, update)
    assert checkpoint_numbers(folder) == [9, 10, 11]
    assert sorted(p.name for p in folder.checkpoints.iterdir()) == ["10", "11", "9"]


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_leaves_a_good_checkpoint(
    folder: RunFolder, point: str, existing: bool
):
    def probe(reached: str) -> None:
        if reached == point:
            raise Killed

    write(folder, 1)
    if existing:
        write(folder, 2)
    with pytest.raises(Killed):
        write(folder, 2, probe=probe)
    expected = 2 if existing or point == "after-rename" else 1
    assert read_checkpoint(folder).update == expected
    write(folder, 3)
    assert read_checkpoint(folder).update == 3
    assert all(p.name.isdecimal() for p in folder.checkpoints.iterdir())


def test_a_kill_between_the_two_renames_of_a_rewrite_leaves_the_old_one(folder: RunFolder):
    write(folder, 1)
    (folder.checkpoints / "1").rename(folder.checkpoints / ".1.replaced")
    assert read_checkpoint(folder).update == 1
    clear_leftovers(folder)
    assert [p.name for p in folder.checkpoints.iterdir()] == ["1"]
