"""Stability, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.stability import drawdowns, spread, stability

FINITE = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def test_drawdowns_by_hand():
    scores = np.array([1.0, 4.0, 3.0, 5.0, 2.0])
    assert drawdowns(scores).tolist() == [0.0, 0.0, 1.0, 0.0, 3.0]
    # Falls: 4 → 3 and 5 → 2 of four steps; (0 + 0 + 1 + 0 + 3) / 5.
    assert stability(scores) == (3.0, 0.8, 0.5)


def test_a_fall_counts_from_the_best_so_far_not_from_the_score_before():
    assert stability(np.array([0.0, 10.0, 6.0, 7.0, 5.0])).largest_drawdown == 5.0


def test_one_score_and_scores_that_never_fall_are_perfectly_stable():
    assert stability(np.array([7.0])) == (0.0, 0.0, 0.0)
    assert stability(np.array([-3.0, -3.0, 8.0])) == (0.0, 0.0, 0.0)


@given(FINITE)
def test_a_drawdown_is_at_least_0_and_at_most_the_range(values: list[float]):
    scores = np.array(values)
    found = stability(scores)
    assert 0.0 <= found.mean_drawdown <= found.largest_drawdown + 1e-9
    assert found.largest_drawdown <= np.ptp(scores)


def test_the_spread_over_runs_by_hand():
    # Mean 4, squares 4 + 0 + 4, over N − 1 = 2.
    assert spread(np.array([2.0, 4.0, 6.0])) == (2.0, 2.0)
    one = spread(np.array([5.0]))
    assert math.isnan(one.std)
    assert one.worst == 5.0


@pytest.mark.parametrize("function", [stability, spread])
def test_no_scores_and_scores_that_are_not_finite_are_refused(function):
    with pytest.raises(ValueError, match="no scores"):
        function(np.zeros(0))
    with pytest.raises(ValueError, match="1 of 2 scores are not finite"):
        function(np.array([1.0, np.nan]))
