"""A run folder that is copied to a store while it is written."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from runs.runs_examples import example_record, example_state
from s3_server import wait_for

from drumline.runs.checkpoint import Checkpoint
from drumline.runs.claims import LOCK
from drumline.runs.folder import RunFolder
from drumline.runs.recorder import Recorder
from drumline.stores.claim import claimed
from drumline.stores.mirror import Mirror
from drumline.stores.object_store import ObjectStore, StoreError


class WatchedStore(ObjectStore):
    """A store that remembers its uploads, and fails those that `fails` names."""

    def __init__(self, url: str):
        super().__init__(url)
        self.fails: Callable[[str], bool] = lambda name: False
        self.asked: list[str] = []

    def put(self, name: str, data: bytes) -> None:
        self.asked.append(name)
        if self.fails(name):
            raise StoreError(f"{self.url} is asked to fail")
        super().put(name, data)


class StoredRun:
    """A recorder with a mirror; `update` writes a row and a checkpoint."""

    def __init__(self, folder: RunFolder, store: ObjectStore, resumed_from: Checkpoint | None):
        self.folder = folder
        self.mirror = Mirror(claimed(store, folder), folder, first_pause_seconds=0.05)
        self.recorder = Recorder(
            folder,
            tensorboard=False,
            resumed_from=resumed_from,
            checkpointed=self.mirror.checkpointed,
        )

    def update(self, number: int, segments: Collection[str] = ()) -> None:
        self.recorder.update(example_record(number))
        self.recorder.checkpoint(number, example_state(number), {}, segments)
        self.recorder.flush()

    def uploaded(self, number: int) -> None:
        wait_for(lambda: self.mirror.uploaded == number)

    def close(self, deadline: float | None = None) -> str:
        self.recorder.close()
        return self.mirror.close(lambda: deadline)


@contextmanager
def stored_run(
    folder: RunFolder, store: ObjectStore, resumed_from: Checkpoint | None = None
) -> Iterator[StoredRun]:
    run = StoredRun(folder, store, resumed_from)
    try:
        yield run
    finally:
        run.recorder.close()
        run.mirror.close(lambda: 0.0)


def bytes_of(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
