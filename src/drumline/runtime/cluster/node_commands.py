"""NodeCommands: what each of the driver's commands does to the memory and the pool of a host."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline.runtime.board import NEVER
from drumline.runtime.cluster.node_messages import (
    Advance,
    Command,
    Copy,
    Drop,
    Parcel,
    Publish,
    Seed,
    Submit,
    WakeAt,
    Withdraw,
    Write,
)
from drumline.runtime.cluster.node_news import NodeNews
from drumline.runtime.cluster.replicas import Replica, digest_of
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays


class NodeCommands:
    """Carries out commands, and knows the tasks that they have brought."""

    def __init__(self, parcels: dict[int, Parcel], news: NodeNews):
        """`parcels`: the tasks that the host holds, by serial, changed in place."""
        self.shared: SharedArrays | None = None
        self.replica: Replica | None = None
        self.withdrawn_below = 0
        self._parcels = parcels
        self._news = news
        self._marks: dict[int, int] = {}

    def obey(self, pool: ProcessPool, command: Command, values: Iterator[Any]) -> None:
        """Carry out a command, which takes its data from `values`."""
        if isinstance(command, Submit):
            self._submit(pool, command)
        elif isinstance(command, Publish):
            pool.retain(command.kept)
            pool.publish(command.version, next(values))
        elif isinstance(command, Seed):
            self._own_replica().load(next(values))
            self._news.probe("host-seeded")
        elif isinstance(command, Advance):
            self._advance(pool, command.version, next(values))
        elif isinstance(command, Write):
            rows = next(values)
            self._rows(command.name, command.first, command.first + len(rows))[...] = rows
        elif isinstance(command, Copy):
            self._copy(command)
        elif isinstance(command, Drop):
            for serial in command.serials:
                self._news.kept.pop(serial, None)
        elif isinstance(command, Withdraw):
            self.withdrawn_below = command.below
            for serial in [serial for serial in self._parcels if serial < command.below]:
                del self._parcels[serial]
            pool.withdraw()
        elif isinstance(command, WakeAt) and command.serial in self._parcels:
            self._marks[command.serial] = command.amount
            pool.wake_at(self._parcels[command.serial], command.amount)

    def ended(self, serials: Sequence[int]) -> None:
        """Forget tasks that have ended."""
        for serial in serials:
            self._parcels.pop(serial, None)
            self._marks.pop(serial, None)

    def mark_reached(self, progress: Sequence[tuple[int, int]]) -> bool:
        """Return whether a task has reached its mark since the last call."""
        marks = self._marks
        reached = [serial for serial, amount in progress if amount >= marks.get(serial, NEVER)]
        for serial in reached:
            del marks[serial]
        return bool(reached)

    def _submit(self, pool: ProcessPool, command: Submit) -> None:
        parcels = list(map(Parcel, command.serials, command.tasks))
        self._parcels.update(zip(command.serials, parcels, strict=True))
        self._news.tasks_came(command.waits, more=command.more)
        pool.submit(parcels)
        self._news.probe("host-submitted")

    def _advance(self, pool: ProcessPool, version: int, records: Sequence[bytes]) -> None:
        """Make updates while the workers are idle; results of the version follow its digest."""
        replica = self._own_replica()
        for record in records:
            replica.apply(record)
        arrays = replica.published()
        pool.publish(version, arrays)
        self._news.published(version, digest_of(arrays))
        self._news.probe("host-advanced")

    def _copy(self, command: Copy) -> None:
        rows = self._rows(command.name, command.first, command.last)
        made = np.frombuffer(
            self._news.kept[command.serial], rows.dtype, count=rows.size, offset=command.offset
        )
        rows[...] = made.reshape(rows.shape)

    def _rows(self, name: str, first: int, last: int) -> np.ndarray:
        assert self.shared is not None, "only a pool with shared arrays writes into them"
        return self.shared.arrays[name][first:last]

    def _own_replica(self) -> Replica:
        assert self.replica is not None, "only a pool with replicas sends them updates"
        return self.replica
