"""How far the tasks in flight have come, in whatever process, and whom that must wake."""

from collections.abc import Iterable
from typing import Any

from drumline.runtime.board import NEVER, Board
from drumline.runtime.messages import Lease
from drumline.runtime.worker_process import WorkerProcess


class ProgressMarks:
    """High-water marks by serial: a task that is issued again has been where its last run was.

    That is what a pure task allows: its next run takes the same steps.
    """

    def __init__(self, board: Board):
        self._board = board
        self._highest: dict[int, int] = {}
        self._wanted: dict[int, int] = {}

    def note(self, worker: WorkerProcess) -> None:
        """Remember how far the task that runs in a worker has come."""
        serial, amount = self._board.reached(worker.index)
        held = any(serial in lease.serials for lease in worker.leases)
        if held and amount > self._highest.get(serial, 0):
            self._highest[serial] = amount

    def forget(self, serials: Iterable[int]) -> None:
        """Drop tasks that have come back."""
        for serial in serials:
            self._highest.pop(serial, None)
            self._wanted.pop(serial, None)

    def of(self, numbered: Iterable[tuple[int, Any]]) -> list[tuple[Any, int]]:
        """Return each of these tasks that has progressed, and how far."""
        highest = self._highest
        return [(task, highest[serial]) for serial, task in numbered if serial in highest]

    def want(self, serial: int, amount: int) -> None:
        """Remember to be woken once a task has come to `amount`."""
        self._wanted[serial] = amount

    def arm(self, index: int, leases: Iterable[Lease]) -> None:
        """Write the lowest mark of a child's tasks where the child looks."""
        held = leases if self._wanted else ()
        marks = (self._wanted.get(serial, NEVER) for lease in held for serial in lease.serials)
        self._board.wake_at(index, min(marks, default=NEVER))
