import csv
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from runs.runs_examples import example_evaluation, example_record, example_state, new_folder

from drumline.runs.append_file import AppendFile
from drumline.runs.checkpoint import best_policy_file, checkpoint_numbers, read_checkpoint
from drumline.runs.claims import LOCK, is_claimed
from drumline.runs.fingerprints import first_difference, read_chain
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.policy_files import put_back_best, read_policy
from drumline.runs.recorder import BACKLOG, Recorder
from drumline.runs.rewind import cut_files, rewind
from drumline.runs.tensorboard_events import tag_of
from drumline.types import UpdateRecord

CSV_FILES = ("metrics.csv", "episodes.csv", "evaluations.csv", "fingerprints.csv")


def record(recorder: Recorder, updates: range) -> None:
    """A checkpoint at every even update, an evaluation at every third."""
    for update in updates:
        recorder.update(example_record(update))
        if update % 3 == 0:
            recorder.evaluation(example_evaluation(update))
        if update % 2 == 0:
            recorder.checkpoint(update, example_state(update), {"k": update})


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {name: (folder.path / name).read_bytes() for name in CSV_FILES}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(tmp_path / "run")


def test_rows_come_back_with_the_same_bits(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 8))
    recorder.close()
    with folder.metrics_csv.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["update"]) for row in rows] == list(range(1, 8))
    for row in rows:
        expected = example_record(int(row["update"])).metrics
        assert {name: float(row[name]) for name in expected} == expected
    with folder.evaluations_csv.open() as file:
        evaluations = list(csv.DictReader(file))
    expected = example_evaluation(3)
    assert tuple(map(float, evaluations[0]["returns"].split(";"))) == expected.returns
    assert float(evaluations[0]["mean"]) == pytest.approx(np.mean(expected.returns))
    error = np.std(expected.returns, ddof=1) / np.sqrt(5)
    assert float(evaluations[0]["standard_error"]) == pytest.approx(error)
    with folder.episodes_csv.open() as file:
        episodes = list(csv.reader(file))[1:5]
    assert [float(cells[3]) for cells in episodes] == [
        row.episode_return for row in example_record(1).episodes
    ]
    chain = read_chain(folder.fingerprints_csv)
    assert [row.chained for row in chain.rows() if row.update == 7] == [recorder.chained]


def test_every_manifest_counts_exactly_the_rows_before_it(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=True)
    lengths = {}
    for update in range(1, 7):
        record(recorder, range(update, update + 1))
        recorder.flush()
        lengths[update] = {
            path.name: path.stat().st_size
            for path in folder.path.iterdir()
            if path.is_file() and path.name not in ("config.json", LOCK)
        }
    recorder.close()
    for number in checkpoint_numbers(folder):
        assert read_checkpoint(folder, number).lengths == lengths[number]


def test_order_holds_without_waiting_in_between(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 7))
    recorder.close()
    for number in checkpoint_numbers(folder):
        checkpoint = read_checkpoint(folder, number)
        metrics = folder.metrics_csv.read_bytes()[: checkpoint.lengths["metrics.csv"]]
        assert metrics.endswith(b"\n")
        assert metrics.splitlines()[-1].startswith(f"{number},".encode())
        rows = {row.update: row for row in read_chain(folder.fingerprints_csv).rows()}
        assert rows[number].chained == checkpoint.chained


@pytest.mark.parametrize("number", [2, 4, 6])
def test_resumed_recording_has_the_bytes_of_an_uninterrupted_one(tmp_path: Path, number: int):
    straight, resumed = new_folder(tmp_path / "a"), new_folder(tmp_path / "b")
    recorder = Recorder(straight, tensorboard=True)
    record(recorder, range(1, 10))
    recorder.close()
    recorder = Recorder(resumed, tensorboard=True)
    record(recorder, range(1, 8))
    recorder.close()
    with resumed.metrics_csv.open("a") as file:
        file.write("8,half a r")
    checkpoint = read_checkpoint(resumed, number)
    recorder = Recorder(resumed, tensorboard=True, resumed_from=checkpoint)
    assert checkpoint_numbers(resumed)[-1] == number
    record(recorder, range(number + 1, 10))
    recorder.close()
    assert contents(resumed) == contents(straight)
    sizes = [folder.tensorboard_file.stat().st_size for folder in (straight, resumed)]
    assert sizes[0] == sizes[1]
    # Nothing before: the earliest of the straight run may be gone already.
    for update in set(checkpoint_numbers(straight)) & set(checkpoint_numbers(resumed)):
        one, other = read_checkpoint(straight, update), read_checkpoint(resumed, update)
        assert (one.lengths, one.fingerprint, one.chained) == (
            other.lengths,
            other.fingerprint,
            other.chained,
        )
    chains = [read_chain(folder.fingerprints_csv) for folder in (straight, resumed)]
    assert first_difference(*chains, whole=True) is None


def test_tensorboard_file_outlasts_a_session_without_tensorboard(folder: RunFolder):
    for tensorboard, updates in ((True, range(1, 3)), (False, range(3, 5)), (True, range(5, 7))):
        start = read_checkpoint(folder) if updates.start > 1 else None
        recorder = Recorder(folder, tensorboard=tensorboard, resumed_from=start)
        record(recorder, updates)
        recorder.close()
    assert dict.fromkeys(event.step for event in events(folder)).keys() == {0, 100, 200, 500, 600}


def events(folder: RunFolder) -> list:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    loader = RawEventFileLoader(str(folder.tensorboard_file))
    return [Event.FromString(raw) for raw in loader.Load()]


def test_tensorboard_reads_what_was_written(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=True)
    record(recorder, range(1, 4))
    recorder.close()
    first, *rest = events(folder)
    assert first.file_version == "brain.Event:2"
    assert [event.step for event in rest] == [100, 200, 300, 300]
    found = {value.tag: value.simple_value for value in rest[2].summary.value}
    assert found == pytest.approx(
        {tag_of(name): value for name, value in example_record(3).metrics.items()}
    )
    found = {value.tag: value.simple_value for value in rest[3].summary.value}
    assert found["eval/return_mean"] == pytest.approx(example_evaluation(3).mean)


def test_absent_metric_is_an_empty_cell_and_an_unknown_one_an_error(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    for update, metrics in enumerate(({"a": 1.0, "b": 2}, {"b": np.float64(3.5)})):
        recorder.update(UpdateRecord(update, metrics, {"p": np.zeros(1)}))
    recorder.flush()
    assert folder.metrics_csv.read_text() == "update,a,b\n0,1.0,2\n1,,3.5\n"
    recorder.update(UpdateRecord(2, {"c": 1.0}, {"p": np.zeros(1)}))
    with pytest.raises(RunError, match=r"update 2 has metrics .*\['c'\]"):
        recorder.close()


def test_policy_is_replaced_and_read_back(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    for value in (1.0, 2.0):
        recorder.policy("best", {"parameters": np.full(3, value)}, {"update": value})
    recorder.close()
    policy = read_policy(folder, "best")
    assert policy.tensors["parameters"].tolist() == [2.0, 2.0, 2.0]
    assert policy.document == {"update": 2.0}
    described = json.loads(folder.policy_json("best").read_text())
    assert len(described.pop("sha256")) == 64
    assert described == {"update": 2.0}
    with pytest.raises(RunError, match=r"no policy 'last' until its end.*--policy best is there"):
        read_policy(folder, "last")
    whole = folder.policy_tensors("best").read_bytes()
    folder.policy_tensors("best").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RunError, match=r"damaged .*not the bytes that were written"):
        read_policy(folder, "best")


def test_the_same_policy_is_the_same_bytes_every_time(folder: RunFolder):
    files: set[bytes] = set()
    for _ in range(12):  # several entries of safetensors' metadata would come in an order of chance
        recorder = Recorder(folder, tensorboard=False)
        document = {"update": 1, "environment": {"id": "A"}}
        recorder.policy("best", {"parameters": np.ones(3)}, document)
        recorder.close()
        files.add(folder.policy_tensors("best").read_bytes())
    assert len(files) == 1
    folder.policy_tensors("best").write_bytes(b"12345678")
    with pytest.raises(RunError, match="damaged"):
        read_policy(folder, "best")


def test_full_disk_is_told_by_the_next_call_and_by_close(folder: RunFolder, monkeypatch):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 3))
    recorder.flush()
    full = OSError(28, "No space left on device", str(folder.metrics_csv))

    def fail(_: AppendFile) -> None:
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(AppendFile, "flush", fail)
        recorder.update(example_record(3))
        with pytest.raises(RunError, match=r"disk is full.*metrics\.csv.*checkpoint is 2.*resume"):
            recorder.flush()
    with pytest.raises(RunError, match="disk is full"):
        recorder.update(example_record(4))
    for _ in range(2):
        with pytest.raises(RunError, match="disk is full"):
            recorder.close()
    assert not any(thread.name == "recorder" for thread in threading.enumerate())


def test_caller_never_hangs_on_a_thread_that_failed(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    recorder.update(UpdateRecord(0, {"a": "text"}, {"p": np.zeros(1)}))  # type: ignore[arg-type]
    with pytest.raises(RunError, match="could not be written down"):  # noqa: PT012 - which call
        for update in range(1, 3 * BACKLOG):
            recorder.update(example_record(update))
        recorder.flush()
    with pytest.raises(RunError, match="nothing is trained yet: begin with drumline resume"):
        recorder.close()


SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from runs.runs_examples import example_record, example_state, new_folder
from drumline.runs.folder import RunError
from drumline.runs.recorder import Recorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
recorder = Recorder(new_folder(Path(sys.argv[1])), tensorboard=False)
try:
    for update in range(1, 1000):
        recorder.update(example_record(update))
        if update % 2 == 0:
            recorder.checkpoint(update, example_state(update), {"k": update})
        recorder.flush()
except RunError as error:
    print(error)
assert "torch" not in sys.modules and "tensorboard" not in sys.modules
"""


def test_partial_rows_of_a_file_that_could_not_grow_are_cut_by_the_resume(tmp_path: Path):
    straight = new_folder(tmp_path / "a")
    recorder = Recorder(straight, tensorboard=False)
    for update in range(1, 31):
        recorder.update(example_record(update))
    recorder.close()
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(tmp_path / "b")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
    )
    assert "cannot write" in done.stdout
    assert "csv (File too large)" in done.stdout
    resumed = RunFolder.open(tmp_path / "b")
    checkpoint = read_checkpoint(resumed)
    assert f"last good checkpoint is {checkpoint.update}" in done.stdout
    assert resumed.fingerprints_csv.stat().st_size == 4_000
    recorder = Recorder(resumed, tensorboard=False, resumed_from=checkpoint)
    for update in range(checkpoint.update + 1, 31):
        recorder.update(example_record(update))
    recorder.close()
    for name in ("metrics.csv", "episodes.csv", "fingerprints.csv"):
        assert (resumed.path / name).read_bytes() == (straight.path / name).read_bytes()


def test_two_recorders_cannot_write_one_run(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    with pytest.raises(RunError, match="being written by another process"):
        Recorder(folder, tensorboard=False)
    recorder.close()
    Recorder(folder, tensorboard=False).close()


@pytest.mark.parametrize("place", [".", LOCK])
def test_a_lock_of_the_folder_or_of_its_file_keeps_others_out(folder: RunFolder, place: str):
    """On a network file system the first counts on one machine alone."""
    Recorder(folder, tensorboard=False).close()
    assert not is_claimed(folder)
    descriptor = os.open(folder.path / place, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(RunError, match="being written by another process"):
            Recorder(folder, tensorboard=False)
        assert is_claimed(folder)
    finally:
        os.close(descriptor)
    Recorder(folder, tensorboard=False).close()


def test_a_link_in_the_place_of_the_lock_is_not_followed(folder: RunFolder, tmp_path: Path):
    (folder.path / LOCK).symlink_to(tmp_path / "elsewhere")
    recorder = Recorder(folder, tensorboard=False)
    assert not (tmp_path / "elsewhere").exists()
    assert is_claimed(folder)
    recorder.close()


def test_a_resume_that_another_process_has_overtaken_is_refused_and_changes_nothing(
    folder: RunFolder,
):
    """It has read its checkpoint before it could claim the folder."""
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 3))
    recorder.flush()
    read = read_checkpoint(folder)
    record(recorder, range(3, 9))
    recorder.close()
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match="another process has gone on with"):
        Recorder(RunFolder.open(folder.path), tensorboard=False, resumed_from=read)
    assert checkpoint_numbers(folder) == [4, 6, 8]
    assert before == {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_a_resume_with_settings_that_another_process_has_changed_is_refused(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 3))
    recorder.close()
    mine, theirs = (RunFolder.open(folder.path) for _ in range(2))
    read = read_checkpoint(mine)
    theirs.update_document(horizons=[[0, 7]])
    with pytest.raises(RunError, match=r"another process has changed .*config\.json"):
        Recorder(mine, tensorboard=False, resumed_from=read)


def test_a_run_whose_folder_was_moved_writes_into_no_other(folder: RunFolder, tmp_path: Path):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 3))
    recorder.flush()
    folder.path.rename(tmp_path / "moved")
    other = new_folder(folder.path)
    with pytest.raises(RunError, match="was moved or removed while it was written"):
        record_and_wait(recorder)
    with pytest.raises(RunError, match="was moved or removed"):
        recorder.close()
    assert [path.name for path in other.path.iterdir()] == ["config.json"]
    assert checkpoint_numbers(RunFolder.open(tmp_path / "moved")) == [2]


def record_and_wait(recorder: Recorder) -> None:
    record(recorder, range(3, 5))
    recorder.flush()


def test_closed_recorder_takes_nothing(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    recorder.close()
    recorder.close()
    with pytest.raises(RuntimeError, match="closed"):
        recorder.update(example_record(1))


def test_run_with_checkpoints_is_not_started_over(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 3))
    recorder.close()
    with pytest.raises(ValueError, match="checkpoint 2"):
        Recorder(folder, tensorboard=False)
    Recorder(folder, tensorboard=False, resumed_from=read_checkpoint(folder)).close()


def test_files_are_cut_to_the_manifest_and_those_not_in_it_go(folder: RunFolder):
    for name in ("metrics.csv", "episodes.csv"):
        (folder.path / name).write_text("0123456789")
    folder.card_md.write_text("stays")
    cut_files(folder, {"metrics.csv": 4})
    assert folder.metrics_csv.read_text() == "0123"
    assert not folder.episodes_csv.exists()
    assert folder.card_md.read_text() == "stays"
    assert folder.config_json.exists()


@pytest.mark.parametrize("lengths", [{"metrics.csv": 11}, {"episodes.csv": 0}])
def test_file_shorter_than_its_manifest_is_refused_and_nothing_cut(folder: RunFolder, lengths):
    folder.metrics_csv.write_text("0123456789")
    with pytest.raises(RunError, match="rows are lost"):
        cut_files(folder, lengths)
    assert folder.metrics_csv.read_text() == "0123456789"


def test_file_name_outside_the_folder_is_refused(folder: RunFolder):
    with pytest.raises(RunError, match="no append-only file"):
        cut_files(folder, {"../x": 0})


def test_rewind_to_an_older_checkpoint_takes_the_newer_away(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    record(recorder, range(1, 7))
    recorder.close()
    checkpoint = read_checkpoint(folder, 4)
    for _ in range(2):
        rewind(folder, checkpoint)
        assert checkpoint_numbers(folder) == [2, 4]
    newest = read_chain(folder.fingerprints_csv).last()
    assert newest is not None
    assert newest.update == 4


def improved(recorder: Recorder, mean: float) -> None:
    """A new best policy, as an evaluation with this mean leaves it."""
    tensors, document = {"parameters": np.full(3, mean)}, {"format": 1, "evaluation_mean": mean}
    recorder.policy("best", tensors, document)


def best_files(folder: RunFolder) -> tuple[bytes, bytes]:
    return folder.policy_tensors("best").read_bytes(), folder.policy_json("best").read_bytes()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("torn", [False, True])
def test_the_best_policy_after_a_resume_is_that_of_the_checkpoint(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, links: bool, torn: bool
):
    """Two improvements after the checkpoint; a kill, perhaps between a policy's two files."""
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError()))
    recorder = Recorder(folder, tensorboard=False)
    improved(recorder, 10.0)
    recorder.checkpoint(1, example_state(1), {})
    recorder.flush()
    expected = best_files(folder)
    for mean in (11.0, 12.0):
        improved(recorder, mean)
    recorder.close()
    if torn:
        folder.policy_json("best").write_bytes(expected[1])
    put_back_best(folder, 1, 10.0)
    assert best_files(folder) == expected
    assert read_policy(folder, "best").tensors["parameters"][0] == 10.0


def test_a_run_without_an_evaluation_at_its_checkpoint_has_no_best_policy_after_a_resume(
    folder: RunFolder,
):
    recorder = Recorder(folder, tensorboard=False)
    recorder.checkpoint(0, example_state(0), {})
    improved(recorder, 10.0)
    recorder.close()
    folder.policy_json("best").unlink()  # a kill between the two files
    put_back_best(folder, 0, -np.inf)
    assert not folder.policy_tensors("best").exists()


def test_folders_whose_checkpoints_hold_no_best_policy_go_back_to_the_one_before(folder: RunFolder):
    recorder = Recorder(folder, tensorboard=False)
    improved(recorder, 10.0)
    recorder.flush()
    expected = best_files(folder)
    recorder.checkpoint(1, example_state(1), {})
    improved(recorder, 11.0)
    recorder.close()
    best_policy_file(folder, 1).unlink()
    folder.policy_tensors("before-best").write_bytes(expected[0])
    folder.policy_json("before-best").write_bytes(expected[1])
    put_back_best(folder, 1, 10.0)
    assert best_files(folder) == expected


def test_a_manifest_counts_on_no_file_whose_name_a_power_cut_can_lose(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    """Every directory with a new name is synced before the checkpoint gets its own."""
    synced: list[Path] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    before: list[set[Path]] = []
    recorder = Recorder(
        folder,
        tensorboard=False,
        probe=lambda point: before.append(set(synced)) if point == "before-rename" else None,
    )
    record(recorder, range(1, 3))
    recorder.segment("replay/000000", b"one")
    recorder.checkpoint(3, example_state(3), {}, ["replay/000000"])
    recorder.close()
    at_first, at_second = before
    assert at_first >= {folder.path, folder.path.parent}
    assert at_second >= {folder.path / "replay", folder.path / "replay" / "000000"}
    assert synced.index(folder.path) < synced.index(folder.checkpoints)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Return what has been synced, as it grows."""
    synced: set[Path] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return synced


def test_a_run_that_begins_again_counts_on_no_name_that_a_power_cut_can_lose(
    folder: RunFolder, synced: set[Path]
):
    """A kill may come between the making of `checkpoints` and its sync: universe 140755."""
    folder.checkpoints.mkdir()
    Recorder(folder, tensorboard=False).close()
    assert synced >= {folder.path.parent, folder.path}


def test_a_resume_counts_on_no_name_that_a_power_cut_can_lose(folder: RunFolder, synced: set[Path]):
    """A kill may come between a checkpoint's new name and its sync: universe 129611."""
    recorder = Recorder(folder, tensorboard=False)
    recorder.segment("replay/000000", b"one")
    recorder.checkpoint(3, example_state(3), {}, ["replay/000000"])
    recorder.close()
    synced.clear()
    Recorder(folder, tensorboard=False, resumed_from=read_checkpoint(folder)).close()
    assert synced >= {
        folder.path.parent,
        folder.path,
        folder.checkpoints,
        folder.path / "replay",
    }
