"""Mirror: a thread that copies a run folder to a store, so that training waits for no network."""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from drumline.runs.folder import RunFolder
from drumline.runs.next_commands import by_path, from_store
from drumline.runs.run_error import RunError
from drumline.stores.claim import Claim
from drumline.stores.object_store import StoreError
from drumline.stores.snapshot import Snapshot, SnapshotGone
from drumline.stores.stored_state import PIECE, Piece, StoredState

KEPT = 3
"""Number of states kept in a store, as many as a run folder has checkpoints."""

PATIENCE_SECONDS = 60.0
"""Seconds without an uploaded piece after which the end of a run no longer waits for the store."""

LONGEST_PAUSE_SECONDS = 30.0

_LAST_SECONDS = 1.0
"""Seconds that the end of a run without a state in the store waits for the thread."""


class Taken(Exception):
    """Another driver writes to the store now."""


class Superseded(Exception):
    """A newer snapshot is to be uploaded in place of this one."""


class Mirror:
    """Copies every checkpoint of a run to its store, the newest first; never delays the run.

    A failed upload is tried again until it succeeds or a newer checkpoint takes its place. No
    method but `close` waits, and none raises a fault of the store.
    """

    def __init__(
        self,
        claim: Claim,
        folder: RunFolder,
        *,
        first_pause_seconds: float = 0.5,
        probe: Callable[[str], None] = lambda point: None,
    ):
        self.uploaded = claim.newest
        """Update of the newest state in the store."""
        self._claim, self._store, self._folder = claim, claim.store, folder
        self._first_pause, self._probe = first_pause_seconds, probe
        self._states = list(claim.states)
        # One that no manifest names may be half of a piece: not every store writes in one step.
        # Nor is one of another size whole: a directory may have lost bytes in a power cut.
        self._known = {
            piece.name
            for state in self._states
            for piece in state.pieces()
            if piece.name in claim.pieces and claim.sizes.get(piece.name) in (piece.size, None)
        }
        """Names of the pieces that are in the store."""
        self._hashes: dict[tuple[str, int], str] = {}
        """SHA-256 of the full pieces of growing files, which never change again."""
        # Pieces of uploads that a kill ended; those that this run needs are kept in `_remove_old`.
        self._garbage = set(claim.pieces - _named(self._states))
        self._number = 0
        self._changed = threading.Condition()
        self._pending: Snapshot | None = None
        self._closing = False
        self._given_up = False
        self._fault = ""
        """Fault of the latest attempt; empty after a success."""
        self._complete = False
        """Whether the closed run is uploaded."""
        self._taken = False
        self._news: list[str] = []
        self._moved = time.monotonic()
        """Time of the latest uploaded piece."""
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the store's URL."""
        return self._store.url

    def checkpointed(self, update: int) -> None:
        """Take note of a new checkpoint, which is held open until it is uploaded."""
        try:
            self._give(Snapshot.at_checkpoint(self._folder, update))
        except SnapshotGone:
            return  # removed by a newer one

    def news(self) -> Sequence[str]:
        """Return what the user should know since the last call, such as a store that is lost."""
        with self._changed:
            news, self._news = self._news, []
        return news

    def give_back(self) -> None:
        """Upload no more, and give the prefix back if it has no state of the run; never fails."""
        with self._changed:
            self._given_up = True
            self._replace_pending(None)
        if self.uploaded is not None:
            return
        self._thread.join(_LAST_SECONDS)
        # A manifest that was tried may still arrive, and would be among those of the next run.
        if not (self._thread.is_alive() or self._fault or self._number):
            with suppress(RunError):
                self._claim.give_back(self._known | self._garbage)

    def close(self, deadline: Callable[[], float | None] = lambda: None) -> str:
        """Upload the closed run and return a sentence about it for the user.

        Waits until `deadline()` (of `time.monotonic`), which a signal may set meanwhile; as long as
        pieces arrive where it is None.
        """
        snapshot = None
        try:
            snapshot = Snapshot.at_end(self._folder)
        except SnapshotGone as error:
            self._fault = f"{error} cannot be read"
        with self._changed:
            self._closing = True
            self._replace_pending(snapshot)
            self._moved = time.monotonic()
            while self._thread.is_alive() and time.monotonic() < self._until(deadline()):
                self._changed.wait(0.1)
            self._given_up = True
            self._changed.notify_all()
        return self._sentence(None if snapshot is None else snapshot.update)

    def _until(self, deadline: float | None) -> float:
        return self._moved + PATIENCE_SECONDS if deadline is None else deadline

    def _sentence(self, newest: int | None) -> str:
        if self._taken or (newest is None and not self._fault):
            return ""  # said before, or nothing to say
        if self._complete:
            return (
                f"{self.url} has this run to update {newest}; on any host: {from_store(self.url)}"
            )
        has = "nothing of this run" if self.uploaded is None else f"update {self.uploaded}"
        why = self._fault or "the time for uploads is over"
        again = by_path(self._folder, "resume", "--store", self.url)
        return (
            f"{self.url} has {has}, not the newest state of update {newest} ({why}); "
            f"{self._folder.shown} has it all, and uploads it with {again}"
        )

    def _give(self, snapshot: Snapshot) -> None:
        with self._changed:
            self._replace_pending(snapshot)

    def _replace_pending(self, snapshot: Snapshot | None) -> None:
        if self._pending is not None:
            self._pending.close()
        if self._given_up and snapshot is not None:
            snapshot.close()
            snapshot = None
        self._pending = snapshot
        self._changed.notify_all()

    def _run(self) -> None:
        pause = self._first_pause
        try:
            while (snapshot := self._next()) is not None:
                while True:
                    try:
                        self._upload(snapshot)
                    except StoreError as error:
                        self._failed(str(error))
                        if self._superseded_after(pause):
                            break
                        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                        continue
                    except (SnapshotGone, Superseded):
                        break
                    self._succeeded(snapshot)
                    pause = self._first_pause
                    break
                snapshot.close()
        except Taken as error:
            self._taken = True
            self._give_up(str(error))
        except Exception as error:  # noqa: BLE001 - training goes on whatever a store's code raises
            self._give_up(f"{type(error).__name__}: {error}")

    def _next(self) -> Snapshot | None:
        """Wait for a snapshot; None at the end."""
        with self._changed:
            while self._pending is None and not self._closing and not self._given_up:
                self._changed.wait()
            snapshot, self._pending = self._pending, None
            return None if self._given_up else snapshot

    def _superseded_after(self, seconds: float) -> bool:
        """Pause after a failure; return whether there is a newer snapshot, or no more time."""
        with self._changed:
            asked = self._closing
            self._changed.wait_for(
                lambda: (
                    self._given_up or (self._closing and not asked) or self._pending is not None
                ),
                seconds,
            )
            return self._given_up or self._pending is not None

    def _upload(self, snapshot: Snapshot) -> None:
        files: dict[str, list[tuple[int, str]]] = {}
        for file in snapshot.files:
            files[file.path] = []
            for offset, size in file.pieces():
                self._leave_if_superseded()
                data = None
                sha256 = self._hashes.get((file.path, offset), "")
                if not sha256:
                    data = file.read(offset, size)
                    sha256 = hashlib.sha256(data).hexdigest()
                piece = Piece(file.path, offset, size, sha256)
                if file.grows and size == PIECE:
                    self._hashes[file.path, offset] = sha256
                if piece.name not in self._known:
                    self._probe("before-piece")
                    self._store.put(piece.name, file.read(offset, size) if data is None else data)
                    self._known.add(piece.name)
                    with self._changed:
                        self._moved = time.monotonic()
                files[file.path].append((size, sha256))
        self._leave_if_taken()
        state = StoredState(self._claim.session, self._number, snapshot.update, files)
        # Never again, although it may fail: one that arrives late must not replace a newer one.
        self._number += 1
        self._probe("before-manifest")
        self._store.put(state.name, state.rendered())
        self._states.append(state)
        self._remove_old()

    def _leave_if_superseded(self) -> None:
        """Leave a snapshot for the last one: the time that is left is for the newest state."""
        with self._changed:
            if self._given_up or (self._closing and self._pending is not None):
                raise Superseded

    def _leave_if_taken(self) -> None:
        if host := self._claim.taken_by():
            raise Taken(f"another driver (on {host}) goes on with this run and writes there")

    def _remove_old(self) -> None:
        """Remove manifests beyond the kept ones first, then the pieces that only they name."""
        old = self._states[:-KEPT]
        del self._states[:-KEPT]
        self._garbage |= {state.name for state in old} | _named(old)
        self._garbage -= _named(self._states)
        self._known -= self._garbage
        manifests = {name for name in self._garbage if name.startswith("manifests/")}
        try:
            for names in (manifests, self._garbage - manifests):
                self._store.remove(sorted(names))
                self._garbage -= names
        except StoreError:
            return  # tried again after the next upload

    def _failed(self, fault: str) -> None:
        with self._changed:
            if not self._fault:
                self._news.append(f"{fault}; training goes on, and uploads are tried again")
            self._fault = fault

    def _succeeded(self, snapshot: Snapshot) -> None:
        with self._changed:
            if self._fault:
                self._news.append(f"{self.url} can be used again, and has update {snapshot.update}")
            self._fault, self.uploaded = "", snapshot.update
            self._complete = snapshot.last

    def _give_up(self, fault: str) -> None:
        with self._changed:
            self._given_up, self._fault = True, fault
            self._news.append(f"uploads to {self.url} have ended: {fault}; training goes on")
            self._replace_pending(None)


def _named(states: Sequence[StoredState]) -> set[str]:
    return {piece.name for state in states for piece in state.pieces()}
