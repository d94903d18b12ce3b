"""The claim of a store: one run for each prefix, and one driver that writes there at a time."""

import hashlib
import json
import os
import socket
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from drumline.runs.checkpoint import checkpoint_numbers
from drumline.runs.folder import RunFolder
from drumline.runs.next_commands import from_store
from drumline.runs.run_error import RunError
from drumline.runs.safe_text import visible
from drumline.runs.strict_json import check_fields, parsed
from drumline.stores.object_store import PARTIAL, NoObject, ObjectStore, TooLarge
from drumline.stores.stored_state import (
    FORMAT,
    MANIFEST_LIMIT,
    StoredState,
    place_of,
    read_state,
)

CLAIM = "drumline.json"
_LIMIT = 1 << 16
_KINDS = {"format": int, "run": str, "session": int, "token": str, "title": str, "host": str}


@dataclass(frozen=True)
class Claim:
    """The right of this driver to write to a store, until another driver takes it."""

    store: ObjectStore
    session: int
    token: str
    host: str
    states: tuple[StoredState, ...] = ()
    """States that the store had when it was claimed, oldest first."""
    pieces: frozenset[str] = frozenset()
    """Names of the pieces that it had, and of manifests that a kill has left half written."""
    sizes: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    """Bytes of the pieces, where the store tells them."""

    @property
    def newest(self) -> int | None:
        """Return the update of the newest state that the store had."""
        return self.states[-1].update if self.states else None

    def taken_by(self) -> str:
        """Return the host of the driver that has taken the store since; empty: none has."""
        document = _read(self.store)
        if document is None or document["token"] == self.token:
            return ""
        return visible(document["host"])

    def give_back(self, pieces: Collection[str]) -> None:
        """Remove the claim of a run without a state in the store, after the pieces there."""
        if not self.taken_by():
            self.store.remove(sorted(pieces))
            self.store.remove([CLAIM])


def claimed(store: ObjectStore, folder: RunFolder, *, rewinds: bool = False) -> Claim:
    """Claim a store for the driver of a run; RunError if it has another run, or a later state.

    `rewinds`: the user goes on from an older checkpoint by choice.
    """
    there = _read(store)
    run = _identity(folder.document)
    states: tuple[StoredState, ...] = ()
    pieces: frozenset[str] = frozenset()
    sizes: dict[str, int | None] = {}
    session = 1
    if there is not None:
        if there["run"] != run:
            raise _taken_by_another(store, there)
        states = _states(store)
        halves = [name for name in store.names("manifests") if name.endswith(PARTIAL)]
        sizes = store.sizes("files")
        pieces = frozenset((*sizes, *halves))
        if not rewinds:
            _refuse_behind(store, folder, states)
        session = 1 + max(there["session"], *(state.session for state in states), 0)
    claim = Claim(store, session, os.urandom(16).hex(), socket.gethostname(), states, pieces, sizes)
    document = folder.document
    words = {
        "format": FORMAT,
        "run": run,
        "session": session,
        "token": claim.token,
        "title": f"{document['method']} on {document.get('env')}, seed {document.get('seed')}",
        "host": claim.host,
    }
    data = (json.dumps(words, indent=1) + "\n").encode()
    if there is not None:
        store.put(CLAIM, data)
    elif not store.put_new(CLAIM, data) and claim.taken_by():  # else a repeated request met its own
        raise RunError(f"another run has just begun to write to {store.url}; give another --store")
    if other := claim.taken_by():
        raise RunError(f"another driver (on {other}) has just begun to write to {store.url}")
    return claim


def _taken_by_another(store: ObjectStore, there: Mapping[str, Any]) -> RunError:
    title = visible(there["title"])
    if names_of_states(store):
        return RunError(
            f"{store.url} has another run already ({title}): give another --store, or go on with "
            f"that run: {from_store(store.url)}"
        )
    # Not taken from it: its driver may be about to upload its first state.
    return RunError(
        f"{store.url} is kept for another run ({title}, on {visible(there['host'])}), which has no "
        f"state there yet: give another --store, or remove {store.url}/{CLAIM} if that run has "
        "ended"
    )


def names_of_states(store: ObjectStore) -> list[str]:
    """Return the names of a store's manifests, newest first."""
    named = [(place, name) for name in store.names("manifests") if (place := place_of(name))]
    return [name for _, name in sorted(named, reverse=True)]


def stored_state(store: ObjectStore, name: str) -> StoredState:
    """Read a manifest; ValueError for a damaged one."""
    return read_state(name, store.get(name, MANIFEST_LIMIT))


def _states(store: ObjectStore) -> tuple[StoredState, ...]:
    states: list[StoredState] = []
    for name in reversed(names_of_states(store)):
        with suppress(
            ValueError, NoObject, TooLarge
        ):  # a damaged one, which readers pass over as well
            states.append(stored_state(store, name))
    return tuple(states)


def _refuse_behind(store: ObjectStore, folder: RunFolder, states: tuple[StoredState, ...]) -> None:
    ahead = states[-1].update if states else 0
    here = max(checkpoint_numbers(folder), default=0)
    if ahead > here:
        raise RunError(
            f"{store.url} has update {ahead} of this run, {folder.shown} only update {here}: go on "
            f"with {from_store(store.url)}, or leave --store out"
        )


def _read(store: ObjectStore) -> dict[str, Any] | None:
    try:
        document = parsed(store.get(CLAIM, _LIMIT))
        check_fields(document, _KINDS)
    except NoObject:
        return None
    except ValueError as error:
        raise RunError(f"{store.url}/{CLAIM} is damaged ({error}); give another URL") from error
    if set(_KINDS) - set(document) or document["format"] != FORMAT:
        raise RunError(f"{store.url}/{CLAIM} is not that of a run of this drumline")
    return document


def _identity(document: Mapping[str, Any]) -> str:
    """Return a name of the run that a copy of its folder shares, and no other run."""
    named = [document.get(key) for key in ("created", "method", "env", "seed")]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()
