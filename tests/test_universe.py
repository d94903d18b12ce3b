"""Universes of failures: each ends with the bytes of the training without faults."""

import pytest
from universe.campaign import campaign, outcomes
from universe.planted import PLANTED
from universe.universes import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_few_universes_end_as_without_faults(method: str):
    rows = campaign(first=10_015, count=6, jobs=1, method=method)
    assert rows["findings"] == 0, rows["what"]
    assert rows["sessions"] > rows["universes"], "no driver was killed: this proves little"
    assert rows["kill"] + rows["exit"] + rows["hang"] > 0


def test_a_number_is_one_universe():
    one, again = (list(outcomes(10_003, 2, 1, None, None)) for _ in range(2))
    assert one == again
    assert one[0]["points"] != one[1]["points"]


def test_a_bug_is_found_where_there_is_one():
    found = list(outcomes(0, 30, 1, "es", "told by arrival"))
    assert "other bytes" in found[-1]["finding"]


@pytest.mark.faults
def test_two_hundred_universes_end_as_without_faults():
    rows = campaign(first=20_000, count=200, jobs=1)
    assert rows["findings"] == 0, rows["what"]
    for kind in ("kill", "exit", "hang", "stop", "driver_kill"):
        assert rows[kind] > 0, kind


@pytest.mark.faults
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str):
    found = list(outcomes(0, 100, 1, PLANTED[bug].method, bug))
    assert found[-1]["finding"]
