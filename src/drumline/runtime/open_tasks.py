"""Tasks of a node pool that were neither withdrawn nor returned, with their progress and marks."""

import sys
from typing import Any


class OpenTasks:
    """Open tasks by serial, with their pickles."""

    def __init__(self) -> None:
        self.withdrawn_below = 0
        """Tasks with smaller serials were withdrawn."""
        self.mark_reached = False
        """Whether a task has reached its mark since this was last set to False."""
        self._open: dict[int, tuple[Any, bytes]] = {}
        self._highest: dict[int, int] = {}
        self._marks: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, serial: int) -> bool:
        return serial in self._open

    @property
    def serials(self) -> "set[int]":
        """Return the serials of all open tasks."""
        return set(self._open)

    def __getitem__(self, serial: int) -> tuple[Any, bytes]:
        """Return a task and its pickle."""
        return self._open[serial]

    def add(self, serial: int, task: Any, pickled: bytes) -> None:
        """Note a task that was submitted."""
        self._open[serial] = (task, pickled)

    def close(self, serial: int) -> Any:
        """Forget an open task and return it; None if it is not open."""
        self._highest.pop(serial, None)
        self._marks.pop(serial, None)
        opened = self._open.pop(serial, None)
        return None if opened is None else opened[0]

    def withdraw(self, below: int) -> None:
        """Forget every task; all serials so far are below the mark."""
        self.withdrawn_below = below
        self._open.clear()
        self._highest.clear()
        self._marks.clear()

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the begun tasks, each with its highest progress known here."""
        return [(self._open[k][0], v) for k, v in self._highest.items() if k in self._open]

    def note(self, serial: int, amount: int) -> None:
        """Note the progress of a task; late news of a smaller one changes nothing."""
        if serial in self._open and amount > self._highest.get(serial, 0):
            self._highest[serial] = amount
            if amount >= self._marks.get(serial, sys.maxsize):
                del self._marks[serial]
                self.mark_reached = True

    def serial_of(self, task: Any) -> int | None:
        """Return the serial of this task object; None if it is not open."""
        return next((serial for serial, (other, _) in self._open.items() if other is task), None)

    def want(self, serial: int, amount: int) -> bool:
        """Set the mark of a task; whether it has yet to reach it."""
        if self._highest.get(serial, 0) >= amount:
            self.mark_reached = True
            return False
        self._marks[serial] = amount
        return True

    def mark_of(self, serial: int) -> int | None:
        """Return the mark that a task has yet to reach; None if it has none."""
        return self._marks.get(serial)
