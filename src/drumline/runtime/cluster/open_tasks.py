"""Tasks of a node pool that were neither withdrawn nor returned, with their progress and marks."""

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any


class OpenTasks:
    """Open tasks by serial, with their pickles."""

    def __init__(self) -> None:
        self.tasks: dict[int, Any] = {}
        self.withdrawn_below = 0
        """Tasks with smaller serials were withdrawn."""
        self.mark_reached = False
        """Whether a task has reached its mark since this was last set to False."""
        self.marks: dict[int, int] = {}
        """Serial → progress that the task has yet to reach."""
        self._pickles: dict[int, bytes] = {}
        self._highest: dict[int, int] = {}

    def pickles(self, serials: Iterable[int]) -> tuple[bytes, ...]:
        """Return the pickles of open tasks."""
        return tuple([self._pickles[serial] for serial in serials])

    def add(self, serials: Sequence[int], tasks: Sequence[Any], pickles: Sequence[bytes]) -> None:
        """Note tasks that were submitted."""
        self.tasks.update(zip(serials, tasks, strict=True))
        self._pickles.update(zip(serials, pickles, strict=True))

    def close(self, serial: int) -> Any:
        """Forget an open task and return it; None if it is not open."""
        task = self.tasks.get(serial)
        self.close_all([serial])
        return task

    def close_all(self, serials: Sequence[int]) -> None:
        """Forget tasks, open or not."""
        for known in (self.tasks, self._pickles, self._highest, self.marks):
            if known:
                deque(map(known.pop, serials, repeat(None)), maxlen=0)

    def withdraw(self, below: int) -> None:
        """Forget every task; all serials so far are below the mark."""
        self.withdrawn_below = below
        for known in (self.tasks, self._pickles, self._highest, self.marks):
            known.clear()

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the begun tasks, each with its highest progress known here."""
        return [(self.tasks[k], v) for k, v in self._highest.items() if k in self.tasks]

    def note(self, serial: int, amount: int) -> None:
        """Note the progress of a task; late news of a smaller one changes nothing."""
        if serial in self.tasks and amount > self._highest.get(serial, 0):
            self._highest[serial] = amount
            if amount >= self.marks.get(serial, sys.maxsize):
                del self.marks[serial]
                self.mark_reached = True

    def serial_of(self, task: Any) -> int | None:
        """Return the serial of this task object; None if it is not open."""
        return next((serial for serial, other in self.tasks.items() if other is task), None)

    def want(self, serial: int, amount: int) -> bool:
        """Set the mark of a task; whether it has yet to reach it."""
        if self._highest.get(serial, 0) >= amount:
            self.mark_reached = True
            return False
        self.marks[serial] = amount
        return True
