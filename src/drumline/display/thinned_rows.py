"""Rows of a file of any length as arrays of bounded size."""

from array import array
from collections.abc import Sequence

import numpy as np

MOST = 1 << 17
"""Rows that are kept at most: 131,072."""

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ ÷ the golden ratio
_WHOLE = 1 << 64


class ThinnedRows:
    """All rows while they are few; from `most` on, half of them, a quarter…, and always the newest.

    Row i is kept while i · φ mod 1 is below 1, ½, ¼ …: evenly over the file, and in step with
    nothing that repeats itself in it, such as every second row of another kind. Row 0 always is.
    """

    def __init__(self, width: int, most: int | None = None):
        self._width = width
        self._most = MOST if most is None else most
        self._below = _WHOLE
        self._indices = array("Q")
        self._cells = array("d")
        self._newest: tuple[int, Sequence[float]] | None = None

    def add(self, index: int, row: Sequence[float]) -> None:
        """Add the row of an index; rows may come in any order."""
        if self._newest is None or index > self._newest[0]:
            self._newest = (index, row)
        if index * _STEP % _WHOLE >= self._below:
            return
        self._indices.append(index)
        self._cells.extend(row)
        if len(self._indices) > self._most:
            self._halve()

    def columns(self) -> list[np.ndarray]:
        """Return the kept rows' columns, in the order of the indices."""
        indices, cells = self._arrays()
        if self._newest is not None and self._newest[0] not in indices:
            indices = np.append(indices, np.uint64(self._newest[0]))
            cells = np.append(cells, [self._newest[1]], axis=0)
        order = np.argsort(indices, kind="stable")
        return [np.ascontiguousarray(cells[order, column]) for column in range(self._width)]

    def _halve(self) -> None:
        self._below >>= 1
        indices, cells = self._arrays()
        kept = indices * np.uint64(_STEP) < np.uint64(self._below)
        self._indices, self._cells = array("Q"), array("d")
        self._indices.frombytes(indices[kept].tobytes())
        self._cells.frombytes(cells[kept].tobytes())

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        indices = np.array(self._indices, dtype=np.uint64)
        return indices, np.array(self._cells, dtype=np.float64).reshape(-1, self._width)
