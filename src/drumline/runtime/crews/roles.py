"""Parts of every long-lived role, in any process: its status row and its loop."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from drumline.crew_protocols import Exchange, Role
from drumline.protocols import Probe, Unwatched, Whereabouts
from drumline.runtime.published import PublishedSlots
from drumline.types import Span

CREATING, WAITING, BUSY, LEAVING = range(4)
PHASE, PROGRESS, BUSY_NS, STRETCHES, SIGNS, REPLAYED, TO_REPLAY, BEATS, PIECES = range(9)
"""The words of a row. Memory starts as zeros, so a role that has not begun is creating.

SIGNS counts what is no progress of the run: environments made, reset or stepped, steps replayed.
BEATS counts how often it has looked for work, and grows while the role waits, too. PIECES counts
pieces of work: a forward pass of an actor, a step of some lanes of an executor.
"""

_ROW_WORDS = 16  # two cache lines per role
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
    signs: int
    replayed: int
    """Env steps of the journal that were made again, of `to_replay`."""
    to_replay: int
    beats: int
    pieces: int


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
        phase, progress, busy_ns, _, *others = self._status[place, : PIECES + 1].tolist()
        return RoleStatus(phase, progress, busy_ns * 1e-9, *others)

    def restoring(self, places: int) -> tuple[int, int]:
        """Return the env steps replayed, and those to replay, of all roles that still restore."""
        rows = [self.status(place) for place in range(places)]
        creating = [row for row in rows if row.phase == CREATING]
        return sum(row.replayed for row in creating), sum(row.to_replay for row in creating)

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
        tick: Callable[[], None] = lambda: None,
        whereabouts: Whereabouts | None = None,
    ):
        """Call `tick` after each replayed step, where no other process shows the progress.

        `whereabouts`: the driver's, of a role in the driver.
        """
        self.index = index
        self.arrays = arrays
        self.exchange = exchange
        self.start = start
        self.probe = probe
        self.row = row
        self._leaving = leaving
        self._tick = tick
        self._whereabouts = whereabouts or Unwatched()
        self.published = slots.read
        self.newest = slots.newest
        self.copy_of_newest = slots.copy_of_newest

    def progress(self, amount: int) -> None:
        """Count a piece of work and its progress, which shows that the role is alive."""
        words = self.row.words
        words[PROGRESS] += amount
        words[PIECES] += 1

    def alive(self) -> None:
        """Count a sign of life that is no progress of the run."""
        self.row.words[SIGNS] += 1
        self._whereabouts.alive()

    def replaying(self, replayed: int, total: int) -> None:
        """Note how much of the journal was replayed: a sign of life that the display shows."""
        words = self.row.words
        words[REPLAYED], words[TO_REPLAY] = replayed, total
        words[SIGNS] += 1
        self._tick()

    @contextmanager
    def building(self) -> Generator[None]:
        """Show the driver the phase CREATING, with its longer time limit."""
        before = self.row.words[PHASE]
        self.row.words[PHASE] = CREATING
        try:
            with self._whereabouts.building():
                yield
        finally:
            self.row.words[PHASE] = before

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
