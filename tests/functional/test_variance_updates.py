"""Variance rules: every one against numbers worked out by hand, then by properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.variance_updates import (
    decayed_damp,
    elite_variance,
    one_fifth_factor,
    release_sample_count,
    scaled_variance,
    strict_sample_count,
    welford_variance,
)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("step_size", "release", "strict"),
    [(0.1, 9.0, 10.0), (0.25, 3.0, 4.0), (0.5, 1.0, 2.0), (0.8, 1.0, 1.25), (1.0, 1.0, 1.0)],
)
def test_the_two_sample_counts(step_size: float, release: float, strict: float):
    assert release_sample_count(step_size) == pytest.approx(release)
    assert strict_sample_count(step_size) == strict


def test_welford_by_hand():
    variance, deviation = vector(1.0, 4.0), vector(2.0, 0.0)
    # p = 0.5, n = 10: 1 + (2 * 1 - 1) / 10 = 1.1; 4 + (0 - 4) / 10 = 3.6
    assert welford_variance(variance, deviation, 0.5, 10.0) == pytest.approx([1.1, 3.6])
    # p = 0.25, n = 3: 1 + (2 * 1.5 - 1) / 3 = 5/3; 4 - 4/3 = 8/3
    assert welford_variance(variance, deviation, 0.25, 3.0) == pytest.approx([5 / 3, 8 / 3])
    # p = 0.5, n = 1 keeps nothing of the old: 2 * 1 = 2; the floor
    assert welford_variance(variance, deviation, 0.5, 1.0) == pytest.approx([2.0, 1e-5])


def test_strict_welford_is_the_variance_of_all_samples():
    """The mean moves by p = 1/m at sample m; v is then the mean squared deviation of all m."""
    samples = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    mean, variance = samples[0].copy(), np.zeros(3, np.float32)
    for count, sample in enumerate(samples[1:], start=2):
        step_size = 1.0 / count
        deviation = sample - mean
        variance = welford_variance(
            variance, deviation, step_size, strict_sample_count(step_size), floor=0.0
        )
        mean = mean + np.float32(step_size) * deviation
    assert variance == pytest.approx(samples.var(axis=0), rel=1e-4)


@given(
    st.lists(st.floats(0, 10, width=32), min_size=1, max_size=6),
    st.floats(-100, 100, width=32),
    st.floats(1e-3, 1.0),
)
def test_welford_stays_at_or_above_its_floor(values: list[float], deviation: float, p: float):
    variance = vector(*values)
    for count in (release_sample_count(p), strict_sample_count(p), 10.0):
        updated = welford_variance(variance, np.full_like(variance, deviation), p, count)
        assert (updated >= np.float32(1e-5)).all()
        assert np.isfinite(updated).all()


def test_fewer_than_one_sample_are_refused():
    with pytest.raises(ValueError, match=r"at least 1, got 0.5"):
        welford_variance(vector(1.0), vector(1.0), 0.5, 0.5)


@pytest.mark.parametrize(
    ("successes", "expected"), [(0, 0.99), (1, 0.99), (2, 0.99), (3, 1 / 0.99), (10, 1 / 0.99)]
)
def test_more_than_a_fifth_of_successes_widens(successes: int, expected: float):
    window = [True] * successes + [False] * (10 - successes)
    assert one_fifth_factor(window) == expected


def test_a_scaled_variance_stops_at_its_floor():
    assert scaled_variance(vector(2.0, 1e-5), 0.5) == pytest.approx([1.0, 1e-5])


@pytest.mark.parametrize(("divided", "expected"), [(True, [1.8, 0.5]), (False, [3.5, 0.9])])
def test_elite_variance_by_hand(divided: bool, expected: list[float]):
    elites, mean = [vector(3.0, 1.0), vector(0.0, 3.0)], vector(1.0, 1.0)
    # 0.8 * 2² + 0.2 * 1² = 3.4 and 0.8 * 0 + 0.2 * 2² = 0.8, halved for K = 2, plus 0.1
    updated = elite_variance(elites, np.array([0.8, 0.2]), mean, damp=0.1, divide_by_elites=divided)
    assert updated == pytest.approx(expected)


def test_the_damp_decays_towards_its_limit():
    # 0.9 * 1e-3 + 0.1 * 1e-5 = 9.01e-4
    assert decayed_damp(1e-3, 1e-5, 0.9) == pytest.approx(9.01e-4)
    damp = 1e-3
    for _ in range(500):
        damp = decayed_damp(damp, 1e-5, 0.9)
    assert damp == pytest.approx(1e-5)
