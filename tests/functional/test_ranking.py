"""Fitness shaping: the properties that an update relies on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.ranking import centered_ranks, unshaped, z_scores

FITNESS = st.lists(st.integers(-50, 50), min_size=2, max_size=40).map(
    lambda values: np.array(values, np.float64)
)


@given(FITNESS)
def test_ranks_sum_to_zero_and_stay_within_a_half(fitness: np.ndarray):
    ranks = centered_ranks(fitness)
    assert abs(ranks.sum()) < 1e-12
    assert np.abs(ranks).max() <= 0.5


@given(FITNESS)
def test_equal_returns_share_the_same_bits(fitness: np.ndarray):
    ranks = centered_ranks(fitness)
    for value in np.unique(fitness):
        assert len(set(ranks[fitness == value].tolist())) == 1


@given(FITNESS)
def test_only_the_order_of_returns_matters(fitness: np.ndarray):
    expected = centered_ranks(fitness)
    assert centered_ranks(fitness**3 + 7.0).tobytes() == expected.tobytes()
    assert centered_ranks(np.exp(fitness / 10.0)).tobytes() == expected.tobytes()


@given(FITNESS, st.randoms(use_true_random=False))
def test_permuting_members_permutes_their_weights(fitness: np.ndarray, rng):
    order = list(range(fitness.size))
    rng.shuffle(order)
    assert centered_ranks(fitness[order]).tobytes() == centered_ranks(fitness)[order].tobytes()


@given(st.floats(-1e9, 1e9), st.integers(1, 30))
def test_constant_returns_weigh_exactly_nothing(value: float, count: int):
    fitness = np.full(count, value)
    assert not centered_ranks(fitness).any()
    assert not z_scores(fitness).any()


def test_ties_take_the_mean_of_their_ranks():
    ranks = centered_ranks(np.array([3.0, 1.0, 3.0, 8.0, 0.0]))
    assert ranks.tolist() == [0.125, -0.25, 0.125, 0.5, -0.5]


@given(FITNESS, st.sampled_from([0.0, 1e-3, 0.02, 0.3]))
def test_neighbours_within_the_tolerance_are_ties(fitness: np.ndarray, tolerance: float):
    ranks = centered_ranks(fitness, tie_tolerance=tolerance)
    order = np.argsort(fitness, kind="stable")
    steps, gaps = np.diff(ranks[order]), np.diff(fitness[order])
    apart = gaps > tolerance * np.abs(fitness).max()
    assert ((steps > 0.0) == apart).all()
    assert (steps >= 0.0).all()
    assert abs(ranks.sum()) < 1e-12
    if not tolerance:
        assert ranks.tobytes() == centered_ranks(fitness).tobytes()


def test_near_ties_take_the_mean_of_their_ranks():
    fitness = np.array([9359.9, 44.0, 9350.0, 9359.1, 80.0, 5000.0])
    ranks = centered_ranks(fitness, tie_tolerance=0.002)
    assert ranks == pytest.approx([0.3, -0.5, 0.3, 0.3, -0.3, -0.1])


def test_ranks_without_ties_are_the_reference_formula():
    fitness = np.random.default_rng(0).permutation(11).astype(np.float64)
    assert centered_ranks(fitness) == pytest.approx(fitness / 10.0 - 0.5, abs=1e-15)


def test_z_scores_have_mean_zero_and_std_one():
    scores = z_scores(np.array([1.0, 2.0, 4.0, 9.0]))
    assert scores.mean() == pytest.approx(0.0, abs=1e-15)
    assert scores.std() == pytest.approx(1.0)


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e-170, 1e160, 1e300])
def test_z_scores_are_those_of_the_unit_where_squares_leave_float64(unit: float):
    fitness = np.array([1.0, 2.0, 4.0, -9.0])
    assert z_scores(unit * fitness) == pytest.approx(z_scores(fitness), rel=1e-4)
    assert z_scores(np.array([1.7e308, -1.7e308])).tolist() == [1.0, -1.0]


@given(FITNESS.filter(lambda fitness: len(set(fitness)) > 1), st.floats(1e-100, 1e100))
def test_ordinary_z_scores_are_not_rescaled(fitness: np.ndarray, unit: float):
    centered = unit * fitness - (unit * fitness).mean()
    assert z_scores(unit * fitness).tobytes() == (centered / centered.std()).tobytes()


def test_unshaped_is_the_return_itself():
    assert unshaped(np.array([1.5, -2.0])).tolist() == [1.5, -2.0]
