"""Fetching a run from a store into a fresh local folder, which is then like any run folder.

The store may be a stranger's: only drumline's own file names are written, each piece is compared
with its hash, and no more bytes are taken than the manifest names and the disk has room for.
"""

import dataclasses
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drumline.runs.atomic_files import sync_directory
from drumline.runs.folder import RUNS
from drumline.runs.own_files import aside_name, opened
from drumline.runs.run_error import RunError
from drumline.runs.safe_text import visible
from drumline.stores.claim import names_of_states, stored_state
from drumline.stores.object_store import NoObject, ObjectStore, StoreError, TooLarge
from drumline.stores.stored_state import Piece, StoredState, place_of

_AT_ONCE = 8
_TRIES = 3


class Incomplete(Exception):
    """A state of which a piece is missing or has other bytes."""


def fetched(
    store: ObjectStore,
    out: Path | None = None,
    *,
    update: int | None = None,
    only: Collection[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fetch the newest whole state, or that of an update, into `out`, which must not be there.

    By default the folder is runs/ and the last word of the URL. `only` leaves other files out.
    """
    final = _destination(store, out)
    for whole in _candidates(store, update, say):
        state = whole if only is None else _part(whole, only)
        aside = final.with_name(aside_name(final.name))
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            _refuse_too_large(store, state, final.parent)
            say(f"fetching update {state.update} of {store.url} ({_size_in_words(state.size)})")
            aside.mkdir()
            _write(store, state, aside)
            return _in_place(aside, final)
        except Incomplete as error:
            say(f"update {state.update} of {store.url} is not whole ({error}); trying another one")
        except OSError as error:
            raise RunError(
                f"cannot write to {final} ({error.strerror}); give another folder with --out"
            ) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    asked = "no whole state" if update is None else f"no whole state of update {update}"
    raise RunError(
        f"{store.url} has {asked} of a run to go on from; check the URL"
        + ("" if update is None else ", or leave --checkpoint out")
    )


def _candidates(
    store: ObjectStore, update: int | None, say: Callable[[str], None]
) -> Iterator[StoredState]:
    """Yield the states of a store, newest first, then those that have come meanwhile."""
    newest = (-1, -1)
    while names := [name for name in names_of_states(store) if _place(name) > newest]:
        newest = _place(names[0])
        for name in names:
            try:
                state = stored_state(store, name)
            except NoObject:
                continue  # removed meanwhile by the driver that writes there
            except (ValueError, TooLarge) as error:
                say(f"{store.url}/{name} is damaged ({visible(error)}); trying another one")
                continue
            if update is None or state.update == update:
                yield state


def _place(name: str) -> tuple[int, int]:
    place = place_of(name)
    assert place is not None, "names_of_states returns names with a place"
    return place


def _size_in_words(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def _part(state: StoredState, only: Collection[str]) -> StoredState:
    files = {path: pieces for path, pieces in state.files.items() if path in only}
    return dataclasses.replace(state, files=files)


def _destination(store: ObjectStore, out: Path | None) -> Path:
    if out is not None:
        if os.path.lexists(out):
            raise RunError(f"{out} exists; give another --out, where the run is fetched to")
        return out
    last = store.url.partition("://")[2].rpartition("/")[2]
    stem = re.sub(r"[^\w.-]", "-", last).strip(".") or "run"
    count = 1
    while True:
        path = RUNS / (stem if count == 1 else f"{stem}-{count}")
        if not os.path.lexists(path):
            return path
        count += 1


def _refuse_too_large(store: ObjectStore, state: StoredState, directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if state.size > free:
        raise RunError(
            f"update {state.update} of {store.url} has {state.size / 1e9:.1f} GB, and "
            f"{directory} has room for {free / 1e9:.1f} GB; give another folder with --out"
        )


def _write(store: ObjectStore, state: StoredState, folder: Path) -> None:
    for path in state.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        os.close(opened(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))

    def write(piece: Piece) -> None:
        data = _bytes_of(store, piece)
        descriptor = opened(folder / piece.path, os.O_WRONLY)
        with os.fdopen(descriptor, "r+b") as file:
            file.seek(piece.offset)
            file.write(data)
            file.flush()
            os.fsync(descriptor)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch") as threads:
        waiting = [threads.submit(write, piece) for piece in state.pieces()]
        try:
            for done in waiting:
                done.result()
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _bytes_of(store: ObjectStore, piece: Piece) -> bytes:
    for attempt in range(_TRIES):
        try:
            data = store.get(piece.name, piece.size)
        except NoObject as error:
            raise Incomplete(f"{piece.name} is missing") from error
        except TooLarge as error:
            raise Incomplete(f"{piece.name} has more bytes") from error
        except StoreError:
            if attempt == _TRIES - 1:
                raise
            continue
        if len(data) == piece.size and hashlib.sha256(data).hexdigest() == piece.sha256:
            return data
    raise Incomplete(f"{piece.name} has other bytes")


def _in_place(aside: Path, final: Path) -> Path:
    for directory in {aside, *(path.parent for path in aside.rglob("*"))}:
        sync_directory(directory)
    aside.replace(final)
    sync_directory(final.parent)
    return final
