"""Intervals that are put together from the columns of groups, in the storages of one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.training.gathered_intervals import GatheredStorage, GroupsDiffer, shards_of
from drumline.training.staff import Staff

SHAPE = RolloutShape(3, 4, (2,), "<f4", (), "<i8", 1, truncations=2, scores=True)
COLUMNS = ("actions", "rewards", "terminated", "truncated", "versions", "scores")


class Wire:
    """Keeps what a group sends, and hands it to the other as if both swapped at once."""

    def __init__(self):
        self.sent: dict[int, bytes] = {}

    def of(self, group: int) -> Any:
        def swap(chunks: Sequence[Any]) -> Mapping[int, memoryview]:
            self.sent[group] = b"".join(chunks)
            other = 1 - group
            return {other: memoryview(self.sent[other])} if other in self.sent else {}

        return swap


def filled(group: int, wire: Wire, parameters: Any = None) -> GatheredStorage:
    """Return a group's storages with numbers of its own in its own columns alone."""
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in SHAPE.layout().items()}
    rng = np.random.default_rng(7)
    own = slice(2 * group, 2 * group + 2)
    plain = RolloutStorage(SHAPE, arrays)
    for name in COLUMNS:
        column = getattr(plain, name)
        drawn = rng.integers(0, 2, column.shape).astype(column.dtype)
        column[:, :, own] = drawn[:, :, own]
    published = {"parameters": np.arange(5.0) if parameters is None else parameters}
    staff = Staff(1, group=group, groups=2)
    return GatheredStorage(SHAPE, arrays, staff, wire.of(group), lambda: published)


def test_both_groups_read_the_same_columns():
    wire = Wire()
    first, second = filled(0, wire), filled(1, wire)
    first.read(1)  # sends; nothing is there to be taken yet
    theirs, ours = second.read(1), first.read(1)
    for name in COLUMNS[:4] + COLUMNS[5:]:
        assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
        assert getattr(ours, name).any()
    assert first.versions[1].tobytes() == second.versions[1].tobytes()
    assert not first.versions[0, :, 2:].any(), "the other storage is not touched"


def test_groups_whose_parameters_differ_in_a_bit_stop():
    wire, other = Wire(), np.arange(5.0)
    other[4] = np.nextafter(other[4], 5.0)
    first, second = filled(0, wire), filled(1, wire, other)
    first.read(0)
    with pytest.raises(GroupsDiffer, match="group 0 holds other parameters than group 1"):
        second.read(0)


def test_a_group_in_another_interval_is_noticed():
    wire = Wire()
    first, second = filled(0, wire), filled(1, wire)
    first.read(2)
    with pytest.raises(RuntimeError, match="group 0 is in interval 2, this one in 0"):
        second.read(0)


def test_parts_come_back_in_the_order_of_the_shards():
    wire = Wire()
    shards = [shards_of(4, Staff(1, group=group, groups=2), wire.of(group)) for group in (0, 1)]
    assert [list(own.own) for own in shards] == [[0, 1], [2, 3]]
    parts = [(np.full(3, k, np.float32), np.array([[k, k]], np.float64)) for k in range(4)]
    wire.sent[1] = b"".join(array.tobytes() for part in parts[2:] for array in part)
    found = shards[0].gather(parts[:2])
    assert [[array.tolist() for array in part] for part in found] == [
        [array.tolist() for array in part] for part in parts
    ]
    wire.sent[1] += b"more"
    with pytest.raises(RuntimeError, match="60 bytes, of which 56 were expected"):
        shards[0].gather(parts[:2])
