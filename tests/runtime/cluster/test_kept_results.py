"""Results that a host keeps: rows are found in them byte for byte, and old ones are dropped."""

import pickle

import numpy as np
import pytest

from drumline.runtime.cluster import kept_results
from drumline.runtime.cluster.kept_results import KeptResults


def result(number: int, steps: int = 100) -> tuple[np.ndarray, bytes]:
    rows = np.random.default_rng(number).standard_normal((steps, 3)).astype(np.float32)
    return rows, pickle.dumps({"number": number, "rows": rows}, protocol=5)


def test_rows_are_found_where_they_are():
    known, (rows, pickled) = KeptResults(), result(0)
    known.add([7], [pickled])
    for part in (rows, rows[:60], rows[60:]):
        place = known.find(part)
        assert place is not None
        assert place.serial == 7
        found = np.frombuffer(pickled, np.float32, count=part.size, offset=place.offset)
        assert found.tobytes() == part.tobytes()


def test_rows_that_differ_in_one_bit_are_not_found():
    known, (rows, pickled) = KeptResults(), result(0)
    known.add([7], [pickled])
    rows.view(np.uint32)[50, 1] ^= 1
    assert known.find(rows) is None


def test_a_result_is_dropped_once_rows_are_in_another_one():
    known = KeptResults()
    made = [result(number) for number in range(3)]
    known.add(range(3), [pickled for _, pickled in made])
    assert known.find(made[1][0]) is not None
    assert known.dropped() == ()
    assert known.find(made[0][0]) is not None
    assert known.dropped() == (1,)
    assert known.dropped() == ()
    assert known.find(made[1][0]) is None


def test_the_oldest_results_are_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_results, "_MOST_RESULTS", 2)
    known = KeptResults()
    known.add([1, 2, 3, 4], [result(0)[1], None, result(1)[1], result(2)[1]])
    assert known.dropped() == (1,)
    assert known.find(result(0)[0]) is None
