"""Uploads to an S3 server that fails, answers late, or loses its answers."""

from pathlib import Path

import pytest
from runs.runs_examples import new_folder
from s3_server import Relay, wait_for
from stores.stored_runs import bytes_of, stored_run

from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.stores.claim import names_of_states, stored_state
from drumline.stores.fetch import fetched
from drumline.stores.object_store import ObjectStore

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("fault", [500, 503, 403, "cut", "lost", "late"])
def test_a_run_arrives_whole_after_uploads_that_failed(
    relay: Relay, url: str, tmp_path: Path, fault: int | str
):
    relay.delay = 0.1
    folder = new_folder(tmp_path / "run")
    with stored_run(folder, ObjectStore(url)) as run:
        run.update(0)
        run.uploaded(0)
        failed: list[str] = []

        def fails(method: str, path: str) -> int | str | None:
            # Every second upload: within a state some pieces arrive, and some do not.
            if method != "PUT":
                return None
            failed.append(path)
            return fault if len(failed) % 2 else None

        relay.fails = fails
        for update in range(1, 4):
            run.update(update)
        wait_for(lambda: len(failed) > 8)
        relay.fails = lambda method, path: None
        assert "to update 3" in run.close()
    store = ObjectStore(url)
    copy = RunFolder.open(fetched(store, tmp_path / "host" / "run"))
    assert read_checkpoint(copy).fingerprint == read_checkpoint(folder).fingerprint
    assert bytes_of(copy.path)["metrics.csv"] == bytes_of(folder.path)["metrics.csv"]
    for name in names_of_states(store):
        pieces = {piece.name for piece in stored_state(store, name).pieces()}
        assert pieces <= set(store.names("files"))


def test_a_fetch_tries_again_what_fails(relay: Relay, url: str, tmp_path: Path):
    with stored_run(new_folder(tmp_path / "run"), ObjectStore(url)) as run:
        run.update(0)
        run.close()
    failed: set[str] = set()

    def fails_once(method: str, path: str) -> int | None:
        if "/files/" not in path or path in failed:
            return None
        failed.add(path)
        return 503

    relay.fails = fails_once
    fetched(ObjectStore(url), tmp_path / "host" / "run")
    assert bytes_of(tmp_path / "host" / "run") == bytes_of(tmp_path / "run")
