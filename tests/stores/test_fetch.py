"""Fetching from a store that may be a stranger's: only whole, bounded runs arrive."""

import json
import shutil
from pathlib import Path

import pytest
from runs.runs_examples import new_folder
from stores.stored_runs import WatchedStore, bytes_of, stored_run

from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.stores.claim import names_of_states, stored_state
from drumline.stores.fetch import fetched
from drumline.stores.object_store import ObjectStore
from drumline.stores.stored_state import StoredState, is_run_file, read_state


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    """A store with the states of updates 0, 1 and 2."""
    store = WatchedStore(f"file://{tmp_path}/objects")
    with stored_run(new_folder(tmp_path / "run"), store) as run:
        for update in range(3):
            run.update(update)
            run.uploaded(update)
    return store


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path / "host" / "run"


def newest(store: ObjectStore) -> StoredState:
    return stored_state(store, names_of_states(store)[0])


def update_of(folder: Path) -> list[str]:
    return [path.name for path in (folder / "checkpoints").iterdir()]


@pytest.mark.parametrize("damage", ["missing", "changed", "shorter", "longer"])
def test_a_state_with_a_damaged_piece_is_passed_over_for_the_one_before(
    store: WatchedStore, objects: Path, elsewhere: Path, damage: str
):
    name = next(p.name for p in newest(store).pieces() if "checkpoints/2/state" in p.path)
    file = objects / name
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        changed = bytes([data[0] ^ 1]) + data[1:]
        file.write_bytes({"changed": changed, "shorter": data[1:]}.get(damage, data + b"more"))
    said: list[str] = []
    fetched(store, elsewhere, say=said.append)
    assert update_of(elsewhere) == ["1"]
    assert any("update 2 of" in text and "is not whole" in text for text in said)


def test_states_that_come_during_a_slow_fetch_take_the_place_of_those_that_go(
    store: WatchedStore, tmp_path: Path, elsewhere: Path
):
    folder = RunFolder.open(tmp_path / "run")
    said: list[str] = []
    with stored_run(folder, store, resumed_from=read_checkpoint(folder)) as run:

        def goes_on(text: str) -> None:
            said.append(text)
            if len(said) == 1:  # the newest state is listed, and none of its pieces fetched
                for update in range(3, 7):
                    run.update(update)
                    run.uploaded(update)

        fetched(store, elsewhere, say=goes_on)
    assert "fetching update 2 of" in said[0]
    assert "update 2 of" in said[1]
    assert "fetching update 6 of" in said[2]
    assert "6" in update_of(elsewhere)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 10_000, b"\xff", None])
def test_a_damaged_manifest_is_passed_over(
    store: WatchedStore, objects: Path, elsewhere: Path, damage: bytes | None
):
    file = objects / newest(store).name
    file.write_bytes(file.read_bytes()[:-20] if damage is None else damage)
    said: list[str] = []
    fetched(store, elsewhere, say=said.append)
    assert update_of(elsewhere) == ["1"]
    assert any("is damaged" in text for text in said)


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/passwd",
        "checkpoints/../../outside",
        "checkpoints/2/../../outside",
        "checkpoints/2/other",
        "replay/../outside",
        "replay/000000/x",
        "own_code.py",
        "config.json/x",
        "",
        ".",
        "metrics.csv\x00",
        "metrics.csv\n",
    ],
)
def test_only_files_of_a_run_folder_are_written(
    store: WatchedStore, tmp_path: Path, elsewhere: Path, path: str
):
    assert not is_run_file(path)
    state = newest(store)
    files = {**state.files, path: state.files["config.json"]}
    for name in names_of_states(store):
        store.put(name, StoredState(1, 0, state.update, files).rendered())
    before = set(tmp_path.rglob("*"))
    said: list[str] = []
    with pytest.raises(RunError, match="has no whole state of a run to go on from"):
        fetched(store, elsewhere, say=said.append)
    assert all("which is no file of a run folder" in text for text in said)
    assert set(tmp_path.rglob("*")) - before <= {elsewhere.parent}


@pytest.mark.parametrize(
    "pieces", [[[0, "a" * 64]], [[2**24, "a" * 64]], [[5, "../../x"]], [[5, "A" * 64]], [[5]]]
)
def test_pieces_have_bounded_sizes_and_hashes_for_names(store: WatchedStore, pieces: list[object]):
    name = newest(store).name
    document = json.loads(store.get(name, 2**24))
    document["files"]["metrics.csv"] = pieces
    state = StoredState(1, 0, document["update"], document["files"])
    with pytest.raises(ValueError, match=r"files|SHA-256"):
        read_state(name, state.rendered())


def test_more_than_the_disk_has_room_for_is_refused_before_it_is_fetched(
    store: WatchedStore, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    there = shutil.disk_usage(elsewhere.anchor)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: there._replace(free=10))
    with pytest.raises(RunError, match=r"has room for 0\.0 GB; give another folder with --out"):
        fetched(store, elsewhere)
    assert not elsewhere.exists()


def test_a_link_in_the_place_of_the_new_folder_is_refused(store: WatchedStore, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match="exists; give another --out"):
        fetched(store, link)


def test_by_default_a_run_is_fetched_into_runs_under_a_new_name(
    store: WatchedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert [str(fetched(store)) for _ in range(2)] == ["runs/objects", "runs/objects-2"]
    assert bytes_of(here / "runs" / "objects") == bytes_of(here / "runs" / "objects-2")
    assert RunFolder.open("objects").document["seed"] == 3


def test_an_older_update_is_fetched_when_it_is_asked_for(store: WatchedStore, elsewhere: Path):
    with pytest.raises(RunError, match="no whole state of update 7 of a run"):
        fetched(store, elsewhere, update=7)
    fetched(store, elsewhere, update=1)
    assert update_of(elsewhere) == ["1"]


def test_an_empty_prefix_has_no_run(tmp_path: Path, elsewhere: Path):
    with pytest.raises(RunError, match="no whole state of a run to go on from; check the URL"):
        fetched(ObjectStore(f"file://{tmp_path}/nothing"), elsewhere)
    assert not elsewhere.exists()
