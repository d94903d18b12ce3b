"""Board: the memory that a driver and its child processes share besides their pipes.

Every word has one writer: a row belongs to its child, the rest to the driver. So nothing needs a
lock, and a process killed at any instruction leaves only whole words behind.
"""

import sys
from typing import NamedTuple

import numpy as np

from drumline.protocols import PublishedLayout
from drumline.runtime.published import PublishedSlots, slots_layout
from drumline.runtime.shared_arrays import SharedArrays

CREATING, IDLE, RUNNING, ANSWERING, LEAVING = range(5)
"""Phases of a child. Memory starts as zeros, so a child that has not begun is CREATING."""

PHASE, SERIAL, PROGRESS, TASKS, BUSY_NS, BASE = range(6)
"""The words of a row. SERIAL is the running (or last) task, which is to blame for a death.

PROGRESS counts over the child's life. BASE is its value when the task began, written before SERIAL.
"""

NEVER = sys.maxsize
"""A mark that no task reaches."""

_ROW_WORDS = 8  # one cache line per child


class Status(NamedTuple):
    """The words that a child has written about itself."""

    phase: int
    serial: int
    progress: int
    tasks: int
    busy_seconds: float


class Board:
    """Status rows, wake-up and withdrawal marks and the published slots of one pool."""

    def __init__(self, memory: SharedArrays, published: PublishedLayout):
        self.memory = memory
        self.slots = PublishedSlots(published, memory.arrays)
        self._rows = memory.arrays["status"]
        self._marks = memory.arrays["marks"]
        self._withdrawn: memoryview[int] = memory.arrays["withdrawn"].data

    @staticmethod
    def create(size: int, published: PublishedLayout, versions: int) -> "Board":
        """Return the board of a pool of `size` children that keeps `versions` versions."""
        board = Board(SharedArrays.create(_layout(size, published, versions)), published)
        board.slots.clear()
        return board

    @staticmethod
    def attach(fd: int, size: int, published: PublishedLayout, versions: int) -> "Board":
        """Return the driver's board, in a child process."""
        return Board(SharedArrays.attach(fd, _layout(size, published, versions)), published)

    def row(self, index: int) -> "memoryview[int]":
        """Return the words of one child (a memoryview: several times faster than an ndarray)."""
        return self._rows[index].data

    def mark(self, index: int) -> "memoryview[int]":
        """Return the word with the progress at which one child must wake the driver."""
        return self._marks[index].data

    def wake_at(self, index: int, amount: int) -> None:
        """Have a child send a word once its running task has progressed by `amount`."""
        self._marks[index, 0] = amount

    def reached(self, index: int) -> tuple[int, int]:
        """Return the serial and the progress of the task that a child runs."""
        row = self._rows[index]
        serial, progress, base = int(row[SERIAL]), int(row[PROGRESS]), int(row[BASE])
        # Another serial by now: the words may be those of the next task.
        return (serial, progress - base) if serial == int(row[SERIAL]) else (serial, 0)

    def status(self, index: int) -> Status:
        """Return the words that a child has written about itself."""
        phase, serial, progress, tasks, busy_ns = self._rows[index, :5].tolist()
        return Status(phase, serial, progress, tasks, busy_ns * 1e-9)

    def reset(self, index: int) -> None:
        """Reset a dead child's row for the next child."""
        self._rows[index] = 0

    def withdraw(self, below: int) -> None:
        """Withdraw every task whose serial is below the mark."""
        self._withdrawn[0] = below

    def is_withdrawn(self, serial: int) -> bool:
        """Return whether a task was withdrawn."""
        return serial < self._withdrawn[0]

    def close(self) -> None:
        """Free the memory."""
        self._withdrawn.release()
        del self.slots, self._rows, self._marks
        self.memory.close()


def _layout(size: int, published: PublishedLayout, versions: int) -> PublishedLayout:
    words: dict[str, tuple[tuple[int, ...], str]] = {
        "status": ((size, _ROW_WORDS), np.dtype(np.int64).str),
        "marks": ((size, _ROW_WORDS), np.dtype(np.int64).str),
        "withdrawn": ((1,), np.dtype(np.int64).str),
    }
    return PublishedLayout({**words, **slots_layout(published, versions).arrays})
