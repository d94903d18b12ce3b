"""Leases that two workers hold at once: one begins their tasks from the front, one from the back.

So the two end together, however long single tasks take, and the driver has no part in it. Each
holder counts the tasks that it has begun in a word of its own, and stops when both counts together
reach the number of tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from drumline.runtime.board import Board
from drumline.runtime.messages import Lease

FRONT, BACK = 0, 1


def from_one_end(
    mine: "memoryview[int]", theirs: "memoryview[int]", count: int, side: int
) -> Iterator[int]:
    """Yield the places of tasks to begin, until both holders have begun all `count`.

    Both may begin the last one, because the other's count is read before the own one is written.
    The other way round each could leave it to the other.
    """
    begun = 0
    while begun + theirs[0] < count:
        begun += 1
        mine[0] = begun
        yield begun - 1 if side == FRONT else count - begun


@dataclass
class _Shared:
    lease: Lease
    pending: dict[int, Any]
    """Tasks by serial, without a result so far and not issued again."""
    holders: set[int] = field(default_factory=lambda: {FRONT})
    joined: bool = False


class SharedLeases:
    """The driver's record of shared leases that have not ended on both sides."""

    def __init__(self, board: Board, workers: int):
        self._board = board
        self._free = list(range(workers))
        self._open: dict[int, _Shared] = {}

    def begin(self, lease: Lease) -> Lease:
        """Share a lease; return it for the worker that begins at the front."""
        slot = self._free.pop()
        for side in (FRONT, BACK):
            self._board.ends(slot, side)[0] = 0
        self._open[slot] = _Shared(lease, dict(zip(lease.serials, lease.tasks, strict=True)))
        return lease._replace(end=(slot, FRONT))

    def join(self) -> Lease | None:
        """Return a lease for a worker that begins at the back, if one has tasks left to begin."""
        for slot, shared in self._open.items():
            count = len(shared.lease.tasks)
            if not shared.joined and self._begun(slot, FRONT) < count:
                shared.joined = True
                shared.holders.add(BACK)
                return shared.lease._replace(end=(slot, BACK))
        return None

    def waiting(self) -> bool:
        """Return whether a lease waits for its second worker."""
        return any(not shared.joined for shared in self._open.values())

    def take(self, lease: Lease, serials: Sequence[int]) -> set[int]:
        """Return those of a holder's tasks that count: without a result so far, nor issued again."""
        pending = self._open[_slot(lease)].pending
        return {serial for serial in serials if pending.pop(serial, self) is not self}

    def leave(self, lease: Lease) -> list[tuple[int, Any]]:
        """Note that a holder has answered; return the tasks that neither holder is going to end."""
        slot, side = _slot(lease), _side(lease)
        shared = self._open[slot]
        shared.holders.discard(side)
        if shared.holders:
            return []
        del self._open[slot]
        self._free.append(slot)
        return list(shared.pending.items())

    def lose(self, lease: Lease) -> tuple[Lease, list[tuple[int, Any]]]:
        """Note that a holder has died; return the tasks that it ran, and those that remain.

        The other holder, if there is one, begins the tasks that the dead one had not, so that none
        remain.
        """
        slot, side = _slot(lease), _side(lease)
        pending, begun = self._open[slot].pending, self._begun(slot, side)
        count = len(lease.serials)
        places = range(begun) if side == FRONT else range(count - begun, count)
        held = [lease.serials[place] for place in places if lease.serials[place] in pending]
        lost = Lease(tuple(held), tuple(pending.pop(serial) for serial in held))
        return lost, self.leave(lease)

    def pending(self, lease: Lease) -> Iterator[tuple[int, Any]]:
        """Yield a lease's tasks without a result, each with its serial."""
        yield from self._open[_slot(lease)].pending.items()

    def _begun(self, slot: int, side: int) -> int:
        return self._board.ends(slot, side)[0]


def _slot(lease: Lease) -> int:
    assert lease.end is not None, "only shared leases come here"
    return lease.end[0]


def _side(lease: Lease) -> int:
    assert lease.end is not None, "only shared leases come here"
    return lease.end[1]
