"""Intervals of a run whose groups each step a part of the environments.

Each group's storages have room for all environments. It fills the columns of its own; those of the
others arrive here when the interval is read: everything that journal, tally and reward scale need,
which is all but observations. After that every group folds the same interval.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from drumline.buffers.rollout import STORAGES, RolloutShape, RolloutStorage
from drumline.functional.shards import Part, Shards
from drumline.runtime.cluster.group_links import Chunk
from drumline.training.staff import Staff
from drumline.types import Rollout

Swap = Callable[[Sequence[Chunk]], Mapping[int, memoryview]]
"""Bytes of this group → those of the others, by group."""

_HEADER = struct.Struct("<Q32s")
_ALIGNED = 48


class GroupsDiffer(RuntimeError):
    """Two groups hold other parameters after the same updates: their machines differ."""


class GatheredStorage(RolloutStorage):
    """Storages of one group; `read` fills in the columns of the others."""

    def __init__(
        self,
        shape: RolloutShape,
        arrays: Mapping[str, np.ndarray],
        staff: Staff,
        swap: Swap,
        published: Callable[[], Mapping[str, np.ndarray]],
    ):
        """`published`: the learner's arrays, which must be the same in every group."""
        super().__init__(shape, arrays)
        self._staff = staff
        self._swap = swap
        self._published = published

    def read(self, interval: int) -> Rollout:
        """Return one interval; observations are there for the group's own environments only."""
        slot = interval % STORAGES
        columns = [self.actions, self.rewards, self.terminated, self.truncated, self.versions]
        if self.scores is not None:
            columns.append(self.scores)
        header = _HEADER.pack(interval, digest(self._published())).ljust(_ALIGNED, b"\0")
        own = self._environments(self._staff.group)
        mine = [_bytes(column[slot][:, own]) for column in columns]
        for group, chunk in self._swap([header, *mine]).items():
            self._refuse_other(group, interval, bytes(chunk[: len(header)]), header)
            theirs, start = self._environments(group), len(header)
            for column in columns:
                view = column[slot][:, theirs]
                found = np.frombuffer(chunk, column.dtype, view.size, start)
                column[slot][:, theirs] = found.reshape(view.shape)
                start += view.nbytes
        return super().read(interval)

    def _environments(self, group: int) -> slice:
        width = self.shape.environments // self._staff.groups
        return slice(group * width, (group + 1) * width)

    def _refuse_other(self, group: int, interval: int, theirs: bytes, ours: bytes) -> None:
        if theirs == ours:
            return
        (number, _) = _HEADER.unpack_from(theirs)
        if number != interval:
            raise RuntimeError(f"group {group} is in interval {number}, this one in {interval}")
        raise GroupsDiffer(
            f"group {group} holds other parameters than group {self._staff.group} after the same "
            f"updates, before that of interval {interval}: run all groups on one type of processor "
            "and with the same versions (a learner of your own must gather by the `shards` of its "
            "parts)"
        )


def shards_of(count: int, staff: Staff, swap: Swap) -> Shards:
    """Return the shards of a run of which a group owns an equal part, in order."""
    width = count // staff.groups
    own = range(staff.group * width, (staff.group + 1) * width)
    return Shards(count, own, partial(_gathered, staff, swap))


def digest(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a digest of published arrays."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(_bytes(arrays[name]))
    return found.digest()


def _gathered(staff: Staff, swap: Swap, own: list[Part]) -> list[Part]:
    """Return the parts of all shards; those of a group follow each other."""
    theirs = swap([_bytes(array) for part in own for array in part])
    every: list[Part] = []
    for group in range(staff.groups):
        every += own if group == staff.group else _parts(theirs[group], own)
    return every


def _parts(chunk: memoryview, like: Sequence[Part]) -> list[Part]:
    """Return the parts that another group sent, which have the shapes and types of one's own."""
    parts: list[Part] = []
    start = 0
    for model in like:
        arrays: list[np.ndarray] = []
        for array in model:
            found = np.frombuffer(chunk, array.dtype, array.size, start)
            arrays.append(found.reshape(array.shape))
            start += array.nbytes
        parts.append(tuple(arrays))
    if start != len(chunk):
        raise RuntimeError(f"another group sent {len(chunk)} bytes, of which {start} were expected")
    return parts


def _bytes(array: np.ndarray) -> Chunk:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
