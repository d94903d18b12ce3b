"""Versions, updates and rows of shared arrays that reach each host before the tasks that read them.

Parameters are sent once a version; or, with an update log, each host makes them itself.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.protocols import PublishedLayout
from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.node_messages import Command, Copy, Done, Drop, Publish, Write
from drumline.runtime.cluster.replica_commands import ReplicaCommands
from drumline.runtime.cluster.replicas import UpdateLog
from drumline.runtime.cluster.traffic import Traffic
from drumline.runtime.published import PublishedSlots, slots_layout
from drumline.runtime.shared_arrays import SharedArrays

_CHUNK_BYTES = 8 << 20
_CHUNKS_UNDERWAY = 4


class HostSupply:
    """Commands that a host needs before its next tasks, and their bytes."""

    def __init__(
        self,
        hosts: Sequence[DrivenHost],
        published: PublishedLayout,
        versions: int,
        put: Callable[[Any], Any],
        *,
        shared: SharedArrays | None,
        updates: UpdateLog | None,
        traffic: Traffic | None,
    ):
        """`hosts` changes as they come and go; `put` stores a value once for all of them."""
        self._hosts = hosts
        self._put_once = put
        self._shared = shared
        self._updates = updates
        self._traffic = traffic
        self._replicas = None if updates is None else ReplicaCommands(updates, put)
        self._newest = -1
        memory = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in slots_layout(published, versions).arrays.items()
        }
        self._slots = PublishedSlots(published, memory)
        self._slots.clear()
        self._put: dict[int, Any] = {}
        if shared is not None:
            shared.watch(self._wrote)
        if updates is not None:
            updates.watch(self._advance)

    def close(self) -> None:
        """Watch neither shared arrays nor updates any more."""
        if self._shared is not None:
            self._shared.unwatch(self._wrote)
        if self._updates is not None:
            self._updates.unwatch(self._advance)

    def begin(self, host: DrivenHost) -> None:
        """Note that a new host needs every row."""
        if self._shared is not None and self._updates is None:  # a replica fills them itself
            arrays = self._shared.arrays
            host.unwritten.extend((name, 0, len(array)) for name, array in arrays.items())

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every task submitted from now on; stored once for all nodes."""
        if self._replicas is not None and version != (ready := self._replicas.version):
            raise ValueError(f"published version {version}, but the replicas are of {ready}")
        self._slots.publish(version, arrays)
        self._newest = version
        if self._replicas is not None:
            return
        held = self._slots.held()
        stored = self._put_once({name: array.copy() for name, array in arrays.items()})
        self._put = {k: v for k, v in self._put.items() if k in held} | {version: stored}
        for host in self._hosts:
            host.has = host.has & held - {version}

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever versions follow."""
        self._slots.retain(versions)

    def for_tasks(self, host: DrivenHost) -> tuple[list[Command], list[Any]]:
        """Return the commands, with their data, that go before a host's next tasks."""
        if self._replicas is not None:
            return self._missing_updates(host, self._replicas)
        held = self._slots.held()
        missing = sorted(held - host.has)
        host.has = frozenset(held)
        kept = tuple(held)
        size = sum(array.nbytes for v in missing for array in self._slots.read(v).values())
        self.count(host, parameters=size)
        commands: list[Command] = [Publish(version, kept) for version in missing]
        if dropped := host.kept.dropped():  # rows may be written never again
            commands.append(Drop(dropped))
        return commands, [self._put[v] for v in missing]

    def write(self, host: DrivenHost) -> None:
        """Send a host rows of the shared arrays, a few chunks at a time."""
        assert self._shared is not None, "rows are written to shared arrays only"
        arrays = self._shared.arrays
        while host.unwritten and host.speaks and host.tells - host.told <= _CHUNKS_UNDERWAY:
            commands: list[Command] = []
            rows: list[Any] = []
            room = _CHUNK_BYTES
            while host.unwritten and room > 0:
                name, first, last = host.unwritten.popleft()
                width = max(1, arrays[name][:1].nbytes)
                end = min(last, first + max(1, room // width))
                if end < last:
                    host.unwritten.appendleft((name, end, last))
                chunk = arrays[name][first:end]
                place = host.kept.find(chunk)
                if place is not None:
                    commands.append(Copy(name, first, end, *place))
                    continue
                commands.append(Write(name, first))
                rows.append(chunk.copy())
                room -= chunk.nbytes
            if dropped := host.kept.dropped():
                commands.append(Drop(dropped))
            host.tell(commands, rows)
            if room <= 0:
                host.flush()
            self.count(host, shared=_CHUNK_BYTES - room)

    def heard(self, host: DrivenHost, done: Done) -> None:
        """Note results that a host keeps, because rows of the shared arrays may be in them."""
        if self._shared is not None and self._updates is None:
            host.kept.add(done.serials, done.results)

    def drifted(self, replicas: Sequence[tuple[int, bytes]]) -> int | None:
        """Return the first version whose digest is not the driver's; None if there is none."""
        if self._replicas is None:
            return None
        differs, slots = self._replicas.differs, self._slots
        return next((v for v, digest in replicas if differs(v, digest, slots)), None)

    def count(self, host: DrivenHost, **sizes: int) -> None:
        """Count bytes of the coming update."""
        if self._traffic is not None:
            self._traffic.add(self._newest + 1, host.node.name, **sizes)

    def _missing_updates(
        self, host: DrivenHost, replicas: ReplicaCommands
    ) -> tuple[list[Command], list[Any]]:
        commands, data, sizes = replicas.steps(host.replica)
        host.replica = replicas.version
        self.count(host, **sizes)
        return commands, data

    def _advance(self) -> None:
        """Tell hosts the newest update; others get it with their next tasks."""
        assert self._replicas is not None, "only a pool with replicas watches a log"
        for host in self._hosts:
            if host.replica == self._replicas.version - 1 and not host.silent:
                host.tell(*self._missing_updates(host, self._replicas))
                host.flush()

    def _wrote(self, name: str, first: int, last: int) -> None:
        for host in self._hosts:
            host.unwritten.append((name, first, last))
