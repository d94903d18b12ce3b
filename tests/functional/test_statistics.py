import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
    mean_interval,
    probability_of_improvement,
)

samples = arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))


@given(samples)
def test_interquartile_mean_is_the_mean_of_the_middle_half(values):
    cut = len(values) // 4
    middle = sorted(values)[cut : len(values) - cut]
    assert interquartile_mean(values) == pytest.approx(math.fsum(middle) / len(middle), abs=1e-6)


def test_interquartile_mean_ignores_an_outlier():
    assert interquartile_mean(np.array([1.0, 2.0, 3.0, 1e9])) == 2.5


def test_interquartile_mean_is_the_same_along_an_axis():
    rows = np.random.default_rng(0).normal(size=(3, 11))
    expected = [interquartile_mean(row) for row in rows]
    np.testing.assert_allclose(interquartile_mean_along(rows), expected)


def test_mean_interval_is_students_from_the_table():
    interval = mean_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    reach = 2.776445105 * math.sqrt(2.5 / 5)  # t table: 4 degrees of freedom, 97.5 %
    assert interval == pytest.approx((3 - reach, 3 + reach))


def test_mean_interval_covers_the_true_mean_as_often_as_it_says():
    rows = np.random.default_rng(0).normal(loc=3.0, size=(400, 5))
    intervals = [mean_interval(row, confidence=0.9) for row in rows]
    assert 0.86 < np.mean([low <= 3.0 <= high for low, high in intervals]) < 0.94


def test_bootstrap_interval_agrees_with_a_loop_over_resamples():
    values = np.random.default_rng(1).exponential(size=40)
    rng = np.random.default_rng(2)
    means = [rng.choice(values, values.size).mean() for _ in range(5_000)]
    expected = np.percentile(means, [2.5, 97.5])
    np.testing.assert_allclose(bootstrap_interval(values, seed=0), expected, rtol=0.03)


def test_bootstrap_interval_is_a_function_of_its_seed():
    values = np.arange(12.0)
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)


def test_bootstrap_interval_of_the_interquartile_mean_is_not_moved_by_an_outlier():
    values = np.append(np.arange(19.0), 1e9)
    interval = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
    assert interval.low < 9.5 < interval.high < 100


@pytest.mark.parametrize("count", [2, 3, 20])
def test_equal_values_have_an_interval_without_width(count):
    values = np.full(count, 0.1)
    assert bootstrap_interval(values, seed=0) == (0.1, 0.1)
    assert mean_interval(values) == (0.1, 0.1)


def test_one_value_says_nothing_about_the_spread():
    one = np.array([5.0])
    assert all(math.isnan(end) for end in (*bootstrap_interval(one, seed=0), *mean_interval(one)))
    assert interquartile_mean(one) == 5.0


def test_bad_values_are_named():
    with pytest.raises(ValueError, match="at least one"):
        interquartile_mean(np.array([]))
    with pytest.raises(ValueError, match="1 of 2 values are not finite"):
        mean_interval(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match=r"got 95"):
        mean_interval(np.array([1.0, 2.0]), confidence=95.0)


def test_shapes_are_checked_in_tests():
    with pytest.raises(Exception, match="interquartile_mean"):
        interquartile_mean(np.zeros((2, 2)))


@given(samples, samples)
def test_probability_of_improvement_counts_pairs_and_halves_of_ties(ours, theirs):
    wins = [(x > y) + 0.5 * (x == y) for x in ours for y in theirs]
    assert probability_of_improvement(ours, theirs) == pytest.approx(sum(wins) / len(wins))
    back = probability_of_improvement(theirs, ours)
    assert probability_of_improvement(ours, theirs) + back == pytest.approx(1.0)
