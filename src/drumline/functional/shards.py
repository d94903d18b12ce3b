"""Shards: equal parts of a run's environments, whose results are gathered and added in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Part = tuple[np.ndarray, ...]
"""Arrays that one shard contributes, of the same shapes and types in every shard."""

Gather = Callable[[list[Part]], Sequence[Part]]
"""Parts of one's own shards → the parts of all shards, in the shards' order."""


@dataclass(frozen=True)
class Shards:
    """The shards of a run, and those of them that are learned from in this process.

    A sum over shards is made of gathered parts in the shards' order, so its bits depend on the
    number of shards and not on that of processes.
    """

    count: int
    own: range
    gather: Gather

    @staticmethod
    def alone(count: int = 1) -> "Shards":
        """Return shards that all belong to this process."""
        return Shards(count, range(count), lambda parts: parts)

    def bounds(self, environments: int) -> list[tuple[int, int]]:
        """Return the first environment and the end of each own shard."""
        every = [environments * shard // self.count for shard in range(self.count + 1)]
        pairs = list(pairwise(every))
        return [pairs[shard] for shard in self.own]


def add_up(parts: Sequence[np.ndarray], total: np.ndarray) -> None:
    """Add arrays to `total` in their order."""
    for part in parts:
        total += part
