"""Replicas of a search: one per node, which makes every update itself from what was told.

    driver: told generation ─▶ UpdateLog ─ record ─▶ each node: Replica.apply ─▶ its workers

A record holds scalars, so its size does not follow the number of parameters. A node without a
replica, or with an old one, gets the log's base state and the records since.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from drumline.types import State

LONGEST_LOG = 64
"""Records after which the log takes a new base: a node that joins applies at most as many."""


class Replica(Protocol):
    """A copy of the driver's search on another node."""

    def load(self, state: State) -> None:
        """Take over the state of a version."""
        ...

    def apply(self, record: bytes) -> None:
        """Make one update, with the bits of the driver's."""
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays that the driver publishes for this version."""
        ...


ReplicaFactory = Callable[[Mapping[str, np.ndarray], int], Replica]
"""(the node's shared arrays, threads of an update) → replica; fills the shared arrays first."""


class Record(NamedTuple):
    """Everything that an update is told."""

    data: bytes
    moments_bytes: int
    """Bytes of `data` that are moments of observations."""


class Route(NamedTuple):
    """Steps that bring a replica to the log's version."""

    base: State | None
    """State to load first; None: the records go on from what the replica has."""
    base_version: int
    records: tuple[Record, ...]


class UpdateLog:
    """A base state and the records since: what brings any replica to the newest version."""

    def __init__(self, factory: ReplicaFactory, version: int, state: State):
        """`state` is that of `version`, and belongs to the log."""
        self.factory = factory
        self._watchers: list[Callable[[], None]] = []
        self.renew(version, state)

    @property
    def version(self) -> int:
        """Return the newest version."""
        return self._base_version + len(self._records)

    @property
    def is_long(self) -> bool:
        """Whether a new base would be less to send, or to compute, than the records."""
        size = sum(len(record.data) for record in self._records)
        return len(self._records) >= LONGEST_LOG or size > self._base_bytes

    def append(self, record: Record) -> None:
        """Take the next update's record, and hand it to pools at once."""
        self._records.append(record)
        for watcher in self._watchers:
            watcher()

    def renew(self, version: int, state: State) -> None:
        """Begin again with the state of `version`."""
        self._base, self._base_version = state, version
        self._base_bytes = sum(array.nbytes for array in state.tensors.values())
        self._records: list[Record] = []

    def route(self, since: int | None) -> Route:
        """Return the records that a replica of version `since` lacks; None: no replica yet."""
        if since is None or since < self._base_version:
            return Route(self._base, self._base_version, tuple(self._records))
        return Route(None, since, tuple(self._records[since - self._base_version :]))

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called after every `append`."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` no more."""
        self._watchers.remove(watcher)


def digest_of(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return SHA-256 over the arrays by name; the same on every node with the same bits."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array: Any = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data if array.size else b"")
    return digest.digest()
