"""ARS's weights, Algorithm 2 of Mania et al. 2018."""

import numpy as np
import pytest

from drumline.functional.top_directions import top_direction_weights


def test_the_best_directions_are_weighted_by_difference_over_spread():
    plus, minus = np.array([1.0, 5.0, 2.0, 0.0]), np.array([0.0, 1.0, 7.0, -1.0])
    spread = np.std([5.0, 1.0, 2.0, 7.0])
    weights = top_direction_weights(plus, minus, 2)
    assert weights == pytest.approx(np.array([0.0, 4.0, -5.0, 0.0]) / (2 * spread))


def test_ties_keep_the_lower_index():
    weights = top_direction_weights(np.array([1.0, 1.0, 1.0]), np.zeros(3), 1)
    assert np.flatnonzero(weights).tolist() == [0]


def test_no_spread_means_no_weights():
    assert not top_direction_weights(np.full(3, 0.1), np.full(3, 0.1), 3).any()


def test_adding_to_all_returns_and_scaling_them_changes_nothing():
    rng = np.random.default_rng(0)
    plus, minus = rng.standard_normal((2, 8))
    weights = top_direction_weights(plus, minus, 4)
    assert top_direction_weights(3 * plus + 7, 3 * minus + 7, 4) == pytest.approx(weights)


@pytest.mark.parametrize("unit", [1e-200, 1e-170, 1e160, 1e300])
def test_weights_are_those_of_the_unit_where_squares_leave_float64(unit: float):
    plus, minus = np.array([1.0, 5.0, 2.0, 0.0]), np.array([0.0, 1.0, 7.0, -1.0])
    weights = top_direction_weights(plus, minus, 2)
    assert top_direction_weights(unit * plus, unit * minus, 2) == pytest.approx(weights)


@pytest.mark.parametrize("top", [0, 4])
def test_a_number_of_directions_that_does_not_exist_is_refused(top: int):
    with pytest.raises(ValueError, match="1 to 3"):
        top_direction_weights(np.zeros(3), np.ones(3), top)
