"""Uploads beside a run: every checkpoint arrives whole, whatever the store does meanwhile."""

import time
from pathlib import Path
from threading import Event, Timer

import pytest
from runs.runs_examples import new_folder
from s3_server import wait_for
from stores.stored_runs import WatchedStore, bytes_of, stored_run

from drumline.runs.checkpoint import checkpoint_numbers, read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.stores.claim import claimed, names_of_states, stored_state
from drumline.stores.fetch import fetched
from drumline.stores.mirror import KEPT, PATIENCE_SECONDS
from drumline.stores.stored_state import PIECE


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(tmp_path / "run")


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(f"file://{tmp_path}/objects")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "host" / "run"


def test_a_closed_run_is_in_the_store_byte_for_byte(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        for update in range(5):
            run.update(update)
        folder.card_md.write_text("the last lines, which come after the last checkpoint")
        sentence = run.close()
    assert (
        sentence
        == f"{store.url} has this run to update 4; on any host: drumline resume {store.url}"
    )
    fetched(store, elsewhere)
    there, here = bytes_of(elsewhere), bytes_of(folder.path)
    assert checkpoint_numbers(RunFolder.open(elsewhere)) == [4]
    assert there == {
        name: data
        for name, data in here.items()
        if not name.startswith(("checkpoints/2", "checkpoints/3"))
    }


def test_a_checkpoint_is_in_the_store_while_the_run_goes_on(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        run.update(1)
        run.uploaded(1)
        at_one = read_checkpoint(folder, 1)
        run.recorder.flush()
        fetched(store, elsewhere)
        copy = RunFolder.open(elsewhere)
        assert read_checkpoint(copy).fingerprint == at_one.fingerprint
        for name, length in at_one.lengths.items():
            assert (elsewhere / name).read_bytes() == (folder.path / name).read_bytes()[:length]


def test_of_a_growing_file_only_the_last_piece_is_uploaded_again(
    folder: RunFolder, store: WatchedStore
):
    segment = "replay/000000"
    with stored_run(folder, store) as run:
        run.recorder.segment(segment, bytes(2 * PIECE + 5))
        run.update(0, [segment])
        run.uploaded(0)
        assert sum(segment in name for name in store.asked) == 3
        run.recorder.segment(segment, b"more")
        run.update(1, [segment])
        run.uploaded(1)
        assert sum(segment in name for name in store.asked) == 4
        state = stored_state(store, names_of_states(store)[0])
        assert [size for size, _ in state.files[segment]] == [PIECE, PIECE, 9]


def test_old_states_and_the_pieces_that_only_they_name_are_removed(
    folder: RunFolder, store: WatchedStore
):
    store = store
    with stored_run(folder, store) as run:
        for update in range(6):
            run.update(update)
            run.uploaded(update)
        run.close()
    names = names_of_states(store)
    assert len(names) == KEPT
    needed = {piece.name for name in names for piece in stored_state(store, name).pieces()}
    assert set(store.names("files")) == needed


def test_failed_uploads_are_said_once_and_tried_again(folder: RunFolder, store: WatchedStore):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        before = len(store.asked)
        store.fails = lambda name: True
        run.update(1)
        wait_for(lambda: len(store.asked) > before + 3)
        (said,) = run.mirror.news()
        assert said.endswith("asked to fail; training goes on, and uploads are tried again")
        store.fails = lambda name: False
        run.uploaded(1)
        (recovered,) = run.mirror.news()
        assert recovered == f"{store.url} can be used again, and has update 1"


def test_a_store_that_stays_away_is_said_at_the_close_with_the_way_to_catch_up(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        store.fails = lambda name: True
        run.update(1)
        sentence = run.close(time.monotonic() + 0.3)
    assert sentence.startswith(f"{store.url} has update 0, not the newest state of update 1 (")
    assert f"uploads it with drumline resume {folder.path} --store {store.url}" in sentence
    store.fails = lambda name: False
    resumed = read_checkpoint(folder)
    with stored_run(RunFolder.open(folder.path), store, resumed_from=resumed) as run:
        assert "to update 1" in run.close()
    assert read_checkpoint(RunFolder.open(fetched(store, elsewhere))).update == 1


def test_a_signal_that_comes_during_the_last_uploads_ends_them_within_its_grace_time(
    folder: RunFolder, store: WatchedStore
):
    asked: list[float] = []

    def deadline() -> float | None:
        return asked[0] if asked else None

    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        store.fails = lambda name: True
        run.update(1)
        run.recorder.close()
        before = time.monotonic()
        Timer(0.5, lambda: asked.append(time.monotonic() + 0.1)).start()
        sentence = run.mirror.close(deadline)
        assert 0.5 < time.monotonic() - before < PATIENCE_SECONDS / 2
    assert sentence.startswith(f"{store.url} has update 0, not the newest state of update 1 (")


def test_a_run_that_ends_gives_up_a_store_that_takes_no_piece_for_a_while(
    folder: RunFolder, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("drumline.stores.mirror.PATIENCE_SECONDS", 0.5)
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        store.fails = lambda name: True
        run.update(1)
        sentence = run.close()
    assert sentence.startswith(f"{store.url} has update 0, not the newest state of update 1 (")


def test_a_shared_piece_that_lost_its_bytes_is_uploaded_again(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    """A power cut may leave a name in a directory without its bytes."""
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        run.close()
    (name,) = (name for name in store.names("files") if "config.json" in name)
    whole = store.get(name, 1 << 20)
    store.put(name, b"")
    saved = read_checkpoint(folder)
    with stored_run(RunFolder.open(folder.path), store, resumed_from=saved) as run:
        run.update(1)
        run.close()
    assert store.get(name, 1 << 20) == whole
    assert read_checkpoint(RunFolder.open(fetched(store, elsewhere))).update == 1


def test_a_claim_whose_answer_was_lost_is_ones_own(folder: RunFolder, store: WatchedStore):
    """The request is repeated below, and its repetition finds the object of the first one."""
    put_new = store.put_new

    def lost_answer(name: str, data: bytes) -> bool:
        assert put_new(name, data)
        return put_new(name, data)

    store.put_new = lost_answer
    assert claimed(store, folder).taken_by() == ""


def test_a_state_is_there_only_when_all_its_pieces_are(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        store.fails = lambda name: name.startswith("manifests/")
        run.update(1)
        wait_for(lambda: "manifests/000001-00000001.json" in store.asked)
        run.close(time.monotonic())
    assert any("checkpoints/1/manifest.json" in name for name in store.names("files"))
    assert read_checkpoint(RunFolder.open(fetched(store, elsewhere))).update == 0


def test_half_of_a_piece_from_a_killed_driver_is_uploaded_again(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        store.fails = lambda name: name.startswith("manifests/")
        run.update(1)
        wait_for(lambda: "manifests/000001-00000001.json" in store.asked)
        run.close(time.monotonic())
    (name,) = (n for n in store.names("files") if "checkpoints/1/state.safetensors" in n)
    store.fails = lambda name: False
    store.put(name, b"half")
    saved = read_checkpoint(folder)
    with stored_run(RunFolder.open(folder.path), store, resumed_from=saved) as run:
        assert "to update 1" in run.close()
    copy = RunFolder.open(fetched(store, elsewhere))
    assert read_checkpoint(copy).fingerprint == saved.fingerprint


def test_no_manifest_is_uploaded_under_a_name_that_was_tried_before(
    folder: RunFolder, store: WatchedStore
):
    tried: list[str] = []

    def fails(name: str) -> bool:
        tried.extend([name] if name.startswith("manifests/") else [])
        return name.startswith("manifests/") and len(tried) < 4

    store.fails = fails  # each of these may still arrive later
    with stored_run(folder, store) as run:
        run.update(0)
        run.update(1)
        run.uploaded(1)
        run.close()
    assert len(tried) == len(set(tried)) >= 4


def test_uploads_that_were_ended_in_between_leave_nothing_behind_for_ever(
    folder: RunFolder, store: WatchedStore
):
    store = store
    piece = f"files/checkpoints/7/state.safetensors/{0:012d}-{'a' * 64}"
    for left in (piece, f"{piece}.12.partial", "manifests/000001-00000007.json.12.partial"):
        store.put(left, b"from a killed driver")
    with stored_run(folder, store) as run:
        run.update(0)
        run.close()
    with stored_run(
        RunFolder.open(folder.path), store, resumed_from=read_checkpoint(folder)
    ) as run:
        run.close()
    assert not [name for name in store.names("") if "checkpoints/7" in name or "partial" in name]


def test_a_second_run_is_refused_a_prefix_that_is_taken(
    folder: RunFolder, store: WatchedStore, tmp_path: Path
):
    other = new_folder(tmp_path / "other")
    with stored_run(folder, store) as run:
        with pytest.raises(RunError, match=r"is kept for another run .*, which has no state there"):
            claimed(store, other)
        run.update(0)
        run.uploaded(0)
        with pytest.raises(
            RunError, match=r"has another run already \(es on ALE/Pong-v5, seed 3\)"
        ):
            claimed(store, other)


def test_a_prefix_without_a_state_is_given_back_with_its_pieces(
    folder: RunFolder, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("drumline.stores.mirror._LAST_SECONDS", 60.0)
    reached = Event()

    def waits(name: str) -> bool:
        if "counters.json" in name:
            reached.set()
            wait_for(lambda: run.mirror._given_up)
        return False

    store.fails = waits
    with stored_run(folder, store) as run:
        run.update(0)
        wait_for(reached.is_set)
        run.mirror.give_back()
        assert store.names("") == []


def test_a_prefix_is_kept_where_a_state_is_or_may_still_arrive(
    folder: RunFolder, store: WatchedStore, tmp_path: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        run.mirror.give_back()
        assert "drumline.json" in store.names("")
    late = WatchedStore(f"file://{tmp_path}/late")
    late.fails = lambda name: name.startswith("manifests/")
    with stored_run(new_folder(tmp_path / "other"), late) as run:
        run.update(0)
        wait_for(lambda: bool(run.mirror.news()))
        run.mirror.give_back()
        assert "drumline.json" in late.names("")


def test_a_claim_that_another_driver_has_taken_is_not_given_back(
    folder: RunFolder, store: WatchedStore
):
    first, second = claimed(store, folder), claimed(store, folder)
    first.give_back([])
    assert second.taken_by() == ""
    assert store.names("") == ["drumline.json"]
    second.give_back([])
    assert store.names("") == []


def test_a_driver_whose_run_goes_on_elsewhere_uploads_no_more(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as first:
        first.update(0)
        first.uploaded(0)
        copy = RunFolder.open(fetched(store, elsewhere))
        with stored_run(copy, store, resumed_from=read_checkpoint(copy)) as second:
            first.update(1)
            wait_for(lambda: not first.mirror._thread.is_alive())
            (said,) = first.mirror.news()
            assert "goes on with this run and writes there" in said
            assert first.close() == ""
            second.update(1)
            second.update(2)
            assert "to update 2" in second.close()
    assert stored_state(store, names_of_states(store)[0]).session == 2


def test_a_folder_that_is_behind_its_store_is_refused(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)
        behind = RunFolder.open(fetched(store, elsewhere))
        run.update(1)
        run.close()
    with pytest.raises(RunError, match=f"has update 1 of this run, {elsewhere} only update 0"):
        claimed(store, behind)
    claimed(store, behind, rewinds=True)


def test_a_checkpoint_that_is_removed_during_its_upload_is_uploaded_whole(
    folder: RunFolder, store: WatchedStore, elsewhere: Path
):
    begun = Event()
    with stored_run(folder, store) as run:
        run.update(0)
        run.uploaded(0)

        def newest_waits() -> bool:  # else another state comes between
            pending = run.mirror._pending
            return pending is not None and pending.update == 5

        def slow(name: str) -> bool:
            if "checkpoints/1/" in name:
                begun.set()
                wait_for(lambda: checkpoint_numbers(folder) == [3, 4, 5] and newest_waits())
            return False

        store.fails = slow
        run.update(1)
        wait_for(begun.is_set)  # else a mirror that is late uploads only a newer checkpoint
        for update in range(2, 6):
            run.update(update)
        run.uploaded(5)
        run.close()
    old = next(n for n in names_of_states(store) if stored_state(store, n).update == 1)
    assert names_of_states(store).index(old) == 2
    copy = RunFolder.open(fetched(store, elsewhere, update=1))
    assert read_checkpoint(copy).update == 1
