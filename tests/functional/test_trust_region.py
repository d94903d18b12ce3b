"""KL divergence between diagonal Gaussians, and steps that stay within a bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.trust_region import diagonal_kl, step_within_kl


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


MEANS = st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4).map(lambda v: vector(*v))
VARIANCES = st.lists(st.floats(2**-16, 4, width=32), min_size=4, max_size=4).map(
    lambda v: vector(*v)
)


def test_the_divergence_by_hand():
    # ½ [(1² / 4 + 1/4 - 1 - ln 1/4) + (0 + 2 - 1 - ln 2)]
    expected = 0.5 * ((0.25 + 0.25 - 1 + math.log(4)) + (2 - 1 - math.log(2)))
    kl = diagonal_kl(vector(1.0, 5.0), vector(1.0, 6.0), vector(0.0, 5.0), vector(4.0, 3.0))
    assert kl == pytest.approx(expected)


def test_the_divergence_is_what_sampling_says():
    rng = np.random.default_rng(0)
    new, old = (0.5, 2.0), (-0.2, 1.0)
    x = rng.normal(new[0], math.sqrt(new[1]), 400_000)

    def log_density(mean: float, variance: float) -> np.ndarray:
        return -0.5 * (np.square(x - mean) / variance + math.log(variance))

    sampled = float(np.mean(log_density(*new) - log_density(*old)))
    kl = diagonal_kl(vector(new[0]), vector(new[1]), vector(old[0]), vector(old[1]))
    assert kl == pytest.approx(sampled, abs=0.01)


@given(MEANS, VARIANCES, MEANS, VARIANCES)
def test_the_divergence_is_never_negative_and_zero_from_itself(
    new_mean: np.ndarray, new_variance: np.ndarray, mean: np.ndarray, variance: np.ndarray
):
    assert diagonal_kl(new_mean, new_variance, mean, variance) >= -1e-12
    assert diagonal_kl(mean, variance, mean, variance) == 0.0


def test_with_the_variance_kept_the_step_is_a_square_root():
    # KL(t) = ½ t² 3² / 1: 2 nats at t = 2/3
    same = vector(1.0)
    step = step_within_kl(vector(3.0), same, vector(0.0), same, bound=2.0)
    assert step == pytest.approx(2 / 3, rel=1e-6)


def test_rounding_at_the_bound_takes_no_step_away():
    kept = vector(1.0)
    for bound in np.geomspace(1e-3, 4.0, 1000).tolist():
        step = step_within_kl(vector(3.0), kept, vector(0.0), kept, bound)
        assert step == pytest.approx(math.sqrt(2.0 * bound) / 3.0, rel=1e-6)


@given(MEANS, VARIANCES, MEANS, VARIANCES, st.floats(1e-3, 100))
def test_the_step_is_the_largest_within_the_bound(
    new_mean: np.ndarray,
    new_variance: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    bound: float,
):
    step = step_within_kl(new_mean, new_variance, mean, variance, bound)
    assert 0.0 < step <= 1.0

    def divergence(part: float) -> float:
        """KL in float64 of the distribution `part` of the way, written as in the textbook."""
        old_mean, old = mean.astype(float), variance.astype(float)
        m = old_mean + part * (new_mean - old_mean)
        v = old + part * (new_variance - old)
        return 0.5 * float(np.sum((m - old_mean) ** 2 / old + v / old - 1 - np.log(v / old)))

    assert divergence(step) <= bound * (1 + 1e-9) + 1e-12
    if step < 1.0:
        assert divergence(min(step * (1 + 1e-4), 1.0)) >= bound * (1 - 1e-6)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan")])
def test_a_bound_that_is_not_positive_is_refused(bound: float):
    one = vector(1.0)
    with pytest.raises(ValueError, match="above 0 nats"):
        step_within_kl(one, one, one, one, bound)
