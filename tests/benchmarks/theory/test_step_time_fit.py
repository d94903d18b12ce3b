from functools import partial

import numpy as np
import pytest
import scipy.stats
from theory.step_time_fit import autocorrelation, fit, variance_growth
from theory.step_times import bursts, constant, exponential, gamma, recorded


def drawn(law, steps: int = 40_000) -> np.ndarray:
    return law(np.random.default_rng(0), (steps, 1, 1))[:, 0, 0]


def test_exponential_times_are_found_to_be_exponential():
    found = fit(drawn(partial(exponential, mean=2.0)))
    assert found.mean == pytest.approx(2.0, rel=0.02)
    assert found.variation == pytest.approx(1.0, abs=0.02)
    assert found.exponential_distance < 0.01
    assert found.gamma_distance < 0.01


def test_gamma_times_are_found_to_be_gamma_of_their_order_and_not_exponential():
    found = fit(drawn(partial(gamma, order=4.0)))
    assert found.gamma_order == pytest.approx(4.0, rel=0.03)
    assert found.gamma_distance < 0.01
    assert found.exponential_distance > 0.2


def test_the_distance_is_kolmogorovs():
    trace = drawn(partial(gamma, order=2.5, mean=3.0), 500)
    found = fit(trace)
    for distance, order in (
        (found.exponential_distance, 1.0),
        (found.gamma_distance, found.gamma_order),
    ):
        model = scipy.stats.gamma(order, scale=found.mean / order)
        assert distance == pytest.approx(scipy.stats.kstest(trace, model.cdf).statistic)


def test_constant_times_vary_in_nothing():
    trace = drawn(constant, 100)
    found = fit(trace)
    assert (found.variation, found.gamma_distance) == (0.0, 0.0)
    assert autocorrelation(trace, 1) == 0.0
    assert variance_growth(trace, 10) == 1.0


def test_independent_times_have_no_memory():
    trace = drawn(exponential, 200_000)
    assert autocorrelation(trace, 1) == pytest.approx(0.0, abs=0.01)
    assert variance_growth(trace, 16) == pytest.approx(1.0, abs=0.05)


def test_bursts_remember_what_their_chain_remembers():
    """ρ(j) = (1 − leave − enter)^j, and the variance of sums grows as it says."""
    length, share, alpha = 8.0, 0.2, 16
    trace = drawn(partial(bursts, burst_steps=length, slow_share=share), 200_000)
    memory = 1 - 1 / length - share / (1 - share) / length
    for lag in (1, 4):
        assert autocorrelation(trace, lag) == pytest.approx(memory**lag, abs=0.02)
    lags = np.arange(1, alpha)
    expected = 1 + 2 * np.sum((1 - lags / alpha) * memory**lags)
    assert variance_growth(trace, alpha) == pytest.approx(expected, rel=0.05)


def test_what_never_changes_within_alpha_steps_averages_nothing_out():
    trace = np.repeat(drawn(exponential, 200), 1_000)
    assert variance_growth(trace, 16) == pytest.approx(16, rel=0.02)


def test_a_replayed_trace_is_as_correlated_as_it_was():
    trace = drawn(partial(bursts, burst_steps=8.0), 2_000)
    replayed = drawn(partial(recorded, trace=trace), 2_000)
    assert autocorrelation(replayed, 3) == pytest.approx(autocorrelation(trace, 3), abs=0.01)
