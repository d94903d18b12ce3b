"""ProgressMarks: progress of the tasks in flight, and the marks at which to wake the driver."""

from collections.abc import Iterable
from typing import Any

from drumline.runtime.board import NEVER, Board
from drumline.runtime.messages import Lease
from drumline.runtime.worker_process import WorkerProcess


class ProgressMarks:
    """Highest progress by serial, kept when a task is issued again after a death.

    A pure task allows this, because its next run takes the same steps.
    """

    def __init__(self, board: Board):
        self._board = board
        self._highest: dict[int, int] = {}
        self._wanted: dict[int, int] = {}

    def note(self, worker: WorkerProcess) -> None:
        """Note the progress of the task that a worker runs."""
        serial, amount = self._board.reached(worker.index)
        held = any(serial in lease.serials for lease in worker.leases)
        if held and amount > self._highest.get(serial, 0):
            self._highest[serial] = amount

    def forget(self, serials: Iterable[int]) -> None:
        """Drop returned tasks."""
        if not (self._highest or self._wanted):
            return
        for serial in serials:
            self._highest.pop(serial, None)
            self._wanted.pop(serial, None)

    def of(self, numbered: Iterable[tuple[int, Any]]) -> list[tuple[Any, int]]:
        """Return those of the tasks that have progressed, each with its progress."""
        highest = self._highest
        return [(task, highest[serial]) for serial, task in numbered if serial in highest]

    def want(self, serial: int, amount: int) -> None:
        """Have the driver woken once a task has progressed to `amount`."""
        self._wanted[serial] = amount

    def arm(self, index: int, leases: Iterable[Lease]) -> None:
        """Write the lowest mark of a child's tasks to the board, where the child reads it."""
        held = leases if self._wanted else ()
        marks = (self._wanted.get(serial, NEVER) for lease in held for serial in lease.serials)
        self._board.wake_at(index, min(marks, default=NEVER))
