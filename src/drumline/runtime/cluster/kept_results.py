"""Results that a host keeps after it has sent them: rows of shared arrays that are in one of them.

A worker of a node makes an episode; its transitions travel to the driver, which writes them to the
replay, whose rows every node needs. The node that made them has them already. So the driver looks
for the bytes of the rows in the results that each host still keeps, and sends their place instead.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEAST_BYTES = 256
"""Results and rows that are smaller are not worth a look."""
_MOST_BYTES, _MOST_RESULTS = 16 << 20, 32


class Place(NamedTuple):
    """Place of some bytes in a result."""

    serial: int
    offset: int


class KeptResults:
    """The results that one host keeps, as the driver knows them."""

    def __init__(self) -> None:
        self._results: dict[int, bytes] = {}
        self._bytes = 0
        self._latest: int | None = None
        """Result in which rows were found last; they come in the order of its arrays."""
        self._dropped: list[int] = []

    def add(self, serials: Sequence[int], results: Sequence[bytes | None]) -> None:
        """Note results that the host has sent, in that order; the oldest are dropped."""
        for serial, result in kept(serials, results):
            self._results[serial] = result
            self._bytes += len(result)
        while self._bytes > _MOST_BYTES or len(self._results) > _MOST_RESULTS:
            self._drop(next(iter(self._results)))

    def find(self, rows: np.ndarray) -> Place | None:
        """Return a place of these rows' bytes; None if no result that the host keeps has them.

        A result is dropped as soon as rows are found in another one.
        """
        if rows.nbytes < LEAST_BYTES or not self._results:
            return None
        wanted = rows.tobytes()
        for serial, result in self._results.items():
            if (offset := result.find(wanted)) >= 0:
                if self._latest not in (None, serial):
                    self._drop(self._latest)
                self._latest = serial
                return Place(serial, offset)
        return None

    def dropped(self) -> tuple[int, ...]:
        """Return the results that the host may drop since the call before."""
        dropped, self._dropped = tuple(self._dropped), []
        return dropped

    def _drop(self, serial: int | None) -> None:
        if serial is not None and serial in self._results:
            self._bytes -= len(self._results.pop(serial))
            self._dropped.append(serial)
        if serial == self._latest:
            self._latest = None


def kept(serials: Sequence[int], results: Sequence[bytes | None]) -> list[tuple[int, bytes]]:
    """Return the results that are large enough to be kept, with their serials."""
    pairs = zip(serials, results, strict=True)
    return [(serial, one) for serial, one in pairs if one is not None and len(one) >= LEAST_BYTES]
