"""Microbatches: parts of a batch that stay in the cache, several at once on threads of their own.

Operators that share a single batch among threads wait for each other at every layer, and for other
processes on the same cores. Microbatches meet only once. Their number at once changes no bit: the
parts of a batch depend on its size alone, and their results are taken in their order.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import torch

T = TypeVar("T")

Work = Callable[[int, slice], T]
"""(lane, rows) → result; no two calls have the same lane at the same time."""


class Microbatches:
    """Divides batches into parts of at most `rows_at_once` rows.

    The number of parts is a multiple of `multiple`, so that the threads end together, unless the
    batch is smaller than half of the largest part.
    """

    def __init__(self, rows_at_once: int, *, multiple: int = 1, threads: int = 1):
        self._rows_at_once = rows_at_once
        self._multiple = multiple
        self.threads = threads
        self._others = (
            ThreadPoolExecutor(threads - 1, "microbatch", torch.set_num_threads, (1,))
            if threads > 1
            else None
        )

    def slices(self, rows: int) -> list[slice]:
        """Return the parts of a batch, as equal as possible."""
        count = -(-rows // self._rows_at_once)
        if 2 * rows >= self._rows_at_once:
            count = -(-count // self._multiple) * self._multiple
        count = min(count, rows)
        bounds = [rows * part // count for part in range(count + 1)] if rows else []
        return [slice(first, last) for first, last in pairwise(bounds)]

    def rounds(self, work: Work[T], parts: Sequence[slice]) -> Iterator[list[T]]:
        """Yield the results of as many parts as run at once, in their order."""
        for start in range(0, len(parts), self.threads):
            yield self._at_once(work, parts[start : start + self.threads])

    def results(self, work: Work[T], parts: Sequence[slice]) -> list[T]:
        """Return the results of all parts, in their order."""
        return [result for together in self.rounds(work, parts) for result in together]

    def _at_once(self, work: Work[T], parts: Sequence[slice]) -> list[T]:
        if self._others is None:
            return [work(0, part) for part in parts]
        others = [self._others.submit(work, lane, part) for lane, part in enumerate(parts[1:], 1)]
        try:
            return [work(0, parts[0]), *(other.result() for other in others)]
        finally:
            wait(others)  # even after an exception of the first, because they write gradients
