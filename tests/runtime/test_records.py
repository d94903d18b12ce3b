"""Records in columns come back as the same records, byte by byte, and others are left alone."""

import pickle
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from drumline.runtime.portable import quickly
from drumline.runtime.records import Records, packed_records, unpacked_records
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Moments


class Labelled(NamedTuple):
    name: str
    weight: float


class WithState(Labelled):
    """Has attributes beside its fields."""


class Counted(NamedTuple):
    number: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Counted, (self.number + 1,)


class Empty(NamedTuple):
    """Has no fields."""


def moments(size: int = 3, seed: int = 0) -> Moments:
    rng = np.random.default_rng(seed)
    return Moments(float(rng.integers(1, 9)), rng.random(size), rng.random((size, 2))[:, 1])


def evaluation(member: int, of: Moments | None) -> Evaluation:
    return Evaluation(4, member, -1, 7 << 40, 0.1, 1.5 * member, -0.0, 9, of, bytes([member]) * 32)


def travelled(values: Sequence[Any]) -> list[Any]:
    return list(unpacked_records(pickle.loads(pickle.dumps(packed_records(values), 5))))


def content(value: Any) -> Any:
    """Types, numbers and bytes of a value, however deep."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return type(value), tuple(map(content, value))
    return type(value), np.float64(value).tobytes() if isinstance(value, float) else value


TASKS = [Evaluate(1, k, -1, 1 << 50, (1 << 63) + k, 0.02, 0, k % 2 == 0, True) for k in range(5)]
RESULTS = {
    "tasks": TASKS,
    "with moments": [evaluation(k, moments(seed=k)) for k in range(6)],
    "without": [evaluation(k, None) for k in range(3)],
    "some with moments": [evaluation(k, moments(seed=k) if k % 2 else None) for k in range(4)],
    "moments of two sizes": [evaluation(k, moments(2 + k % 2, k)) for k in range(4)],
    "moments of nothing": [evaluation(k, moments(0)) for k in range(2)],
}


@pytest.mark.parametrize("name", RESULTS)
def test_records_come_back_with_all_their_bytes(name: str):
    values = RESULTS[name]
    assert isinstance(packed_records(values), Records)
    assert [content(value) for value in travelled(values)] == [content(value) for value in values]


def test_moments_travel_as_one_array_of_numbers():
    packed = packed_records(RESULTS["with moments"])
    assert isinstance(packed, Records)
    assert b"numpy" not in pickle.dumps(packed, 5)
    assert pickle.dumps(packed, 5).count(b"Moments") == 1


@pytest.mark.parametrize(
    "values",
    [
        [],
        [TASKS[0]],
        [TASKS[0], None],
        [TASKS[0], RESULTS["without"][0]],
        [(1, 2), (3, 4)],
        [b"a", b"b"],
        [Counted(1), Counted(5)],
        [Empty(), Empty()],
    ],
)
def test_other_values_are_left_as_they_are(values: list[Any]):
    assert packed_records(values) is values


def test_attributes_beside_the_fields_are_not_lost():
    first, second = WithState("a", 1.0), WithState("b", 2.0)
    first.note = "kept"  # pyright: ignore[reportAttributeAccessIssue]
    assert [vars(value) for value in travelled([first, second])] == [{"note": "kept"}, {}]


def test_records_of_main_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Labelled, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Labelled", Labelled, raising=False)
    packed = packed_records([Labelled("a", 1.0), Labelled("b", 2.0)])
    assert isinstance(packed, Records)
    with pytest.raises(ValueError, match="Labelled lives in __main__"):
        quickly(packed)
