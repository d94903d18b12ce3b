"""Parts of every long-lived role, in any process: its status row and its loop."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from drumline.crew_protocols import Exchange, Role
from drumline.protocols import Probe
from drumline.runtime.published import PublishedSlots
from drumline.types import Span

CREATING, WAITING, BUSY, LEAVING = range(4)
PHASE, PROGRESS, BUSY_NS, STRETCHES, BEATS = range(5)
"""The words of a row. Memory starts as zeros, so a role that has not begun is creating."""

_ROW_WORDS = 8  # one cache line per role
STRETCHES_KEPT = 16_384


def rows_layout(roles: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the arrays of the roles' status words."""
    return {
        "roles/status": ((roles, _ROW_WORDS), "<i8"),
        "roles/stretches": ((roles, STRETCHES_KEPT, 2), "<f8"),
    }


class RoleStatus(NamedTuple):
    """The words that a role has written about itself."""

    phase: int
    progress: int
    busy_seconds: float
    beats: int
    """Number of times that it has looked for work: it grows while the role waits, too."""


class RoleRows:
    """The rows of all roles; each is written by its role alone."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._status = arrays["roles/status"]
        self._stretches = arrays["roles/stretches"]

    def row(self, place: int) -> "RoleRow":
        """Return the row of one role, for writing."""
        return RoleRow(self._status[place].data, self._stretches[place])

    def status(self, place: int) -> RoleStatus:
        """Return the words that a role has written about itself."""
        phase, progress, busy_ns, _, beats = self._status[place, : BEATS + 1].tolist()
        return RoleStatus(phase, progress, busy_ns * 1e-9, beats)

    def reset(self, place: int) -> None:
        """Reset a dead role's row for the next role process."""
        self._status[place] = 0

    def spans(self, role: str, index: int, place: int) -> list[Span]:
        """Return the latest stretches of work of one role, oldest first."""
        count = int(self._status[place, STRETCHES])
        kept = range(max(0, count - STRETCHES_KEPT), count)
        pairs = [self._stretches[place, k % STRETCHES_KEPT].tolist() for k in kept]
        return [Span(role, index, begin, end, 1) for begin, end in pairs]


class RoleRow:
    """The words of one role and its latest stretches of work."""

    def __init__(self, words: Any, stretches: np.ndarray):
        self.words = words
        self._stretches = stretches

    def worked(self, begin: float, end: float) -> None:
        """Note a stretch of work, in times of the machine-wide monotonic clock."""
        words = self.words
        self._stretches[words[STRETCHES] % STRETCHES_KEPT] = begin, end
        words[STRETCHES] += 1
        words[BUSY_NS] += int((end - begin) * 1e9)


class SharedRoleContext:
    """The `RoleContext` of a role over a run's memory."""

    def __init__(
        self,
        index: int,
        arrays: Mapping[str, np.ndarray],
        exchange: Exchange,
        slots: PublishedSlots,
        row: RoleRow,
        start: Any,
        probe: Probe,
        leaving: ExitStack,
    ):
        self.index = index
        self.arrays = arrays
        self.exchange = exchange
        self.start = start
        self.probe = probe
        self.row = row
        self._leaving = leaving
        self.published = slots.read
        self.newest = slots.newest
        self.copy_of_newest = slots.copy_of_newest

    def progress(self, amount: int) -> None:
        """Count progress, which shows that the role is alive."""
        self.row.words[PROGRESS] += amount

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Register `callback` for the end of the role."""
        self._leaving.callback(callback)


def work(
    role: Role, row: RoleRow, wait: Callable[[float | None], bool], stopped: Callable[[], bool]
) -> None:
    """Advance a role and wait for its bell, again and again, until `stopped` or `wait` says so."""
    clock = time.perf_counter
    while True:
        row.words[BEATS] += 1
        row.words[PHASE] = BUSY
        begin = clock()
        worked = False
        while not stopped() and role.advance():
            worked = True
        if worked:
            row.worked(begin, clock())
        row.words[PHASE] = WAITING
        if stopped() or not wait(role.due_seconds()):
            return
