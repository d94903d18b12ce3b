"""Predictions against published tables, textbook values and plain sums."""

import math

import numpy as np
import pytest
from theory.throughput import (
    burst_barrier_slowdown,
    expected_largest_normal,
    extreme_value_barrier_seconds,
    gamma_barrier_seconds,
    large_alpha_slowdown,
    queue_lag,
    straggler_barrier_slowdown,
)

ALPHAS = (1, 4, 16, 64, 128)
# environments: the extreme-value form, and a Monte-Carlo estimate good to about 0.3 %
SLOWDOWN = {
    4: ((1.964, 1.523, 1.265, 1.132, 1.093), (2.083, 1.546, 1.269, 1.131, 1.092)),
    8: ((2.657, 1.805, 1.387, 1.188, 1.132), (2.717, 1.807, 1.381, 1.185, 1.130)),
    16: ((3.350, 2.066, 1.495, 1.237, 1.165), (3.384, 2.061, 1.489, 1.234, 1.163)),
    32: ((4.043, 2.315, 1.594, 1.280, 1.195), (4.049, 2.307, 1.588, 1.277, 1.193)),
}


@pytest.mark.parametrize("environments", SLOWDOWN)
def test_claim_1_is_the_table(environments: int):
    formula, monte_carlo = SLOWDOWN[environments]
    ours = [extreme_value_barrier_seconds(environments, alpha) / alpha for alpha in ALPHAS]
    assert ours == pytest.approx(formula, abs=1.1e-3)
    exact = [gamma_barrier_seconds(environments, alpha) / alpha for alpha in ALPHAS]
    assert exact == pytest.approx(monte_carlo, rel=3e-3)


@pytest.mark.parametrize("environments", [1, 2, 16, 1_000])
def test_one_exponential_step_for_all_takes_a_harmonic_number(environments: int):
    harmonic = sum(1 / i for i in range(1, environments + 1))
    assert gamma_barrier_seconds(environments, 1) == pytest.approx(harmonic, rel=1e-9)


def test_one_environment_never_waits():
    assert gamma_barrier_seconds(1, 50, mean_step_seconds=3.0, order=2.0) == pytest.approx(150)


def test_steps_of_order_k_are_alpha_times_k_exponential_ones():
    ours = gamma_barrier_seconds(16, 8, mean_step_seconds=2.0, order=4.0)
    assert ours == pytest.approx(gamma_barrier_seconds(16, 32, mean_step_seconds=0.5))
    formula = extreme_value_barrier_seconds(16, 8, mean_step_seconds=2.0, order=4.0)
    assert formula == pytest.approx(ours, rel=5e-3)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 0.0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi)), (16, 1.76599)],
)
def test_the_largest_of_normals_is_the_textbooks(count: int, expected: float):
    assert expected_largest_normal(count) == pytest.approx(expected, abs=1e-5)


def test_the_central_limit_form_approaches_the_exact_one():
    for order in (1.0, 4.0):
        exact = gamma_barrier_seconds(16, 1_024, order=order) / 1_024
        ours = large_alpha_slowdown(16, 1_024, variation=1 / math.sqrt(order))
        assert ours - 1 == pytest.approx(exact - 1, rel=0.03)


# alpha: bursts of 4, 64 and 512 steps, by a simulation good to about 2.5 %
BURSTS = {
    1: (4.38, 4.30, 4.35),
    4: (4.07, 4.29, 4.35),
    16: (2.98, 4.28, 4.35),
    64: (1.94, 4.07, 4.35),
    128: (1.68, 3.66, 4.33),
    256: (1.45, 3.07, 4.30),
}


@pytest.mark.parametrize("alpha", BURSTS)
def test_bursts_are_the_table(alpha: int):
    ours = [burst_barrier_slowdown(16, alpha, burst_steps=steps) for steps in (4.0, 64.0, 512.0)]
    assert ours == pytest.approx(BURSTS[alpha], rel=0.025)


def test_bursts_of_one_step_are_those_of_a_sum_over_all_paths():
    """Two environments, two steps: 16 equally simple outcomes."""
    leave, enter = 1 / 2.0, 0.25 / 0.75 / 2.0
    share = {"s": 0.25, "f": 0.75}
    move = {"ss": 1 - leave, "sf": leave, "fs": enter, "ff": 1 - enter}
    seconds = {"s": 3.0, "f": 1.0}
    paths = [(share[a] * move[a + b], seconds[a] + seconds[b]) for a in "sf" for b in "sf"]
    expected = sum(p * q * max(x, y) for p, x in paths for q, y in paths)
    ours = burst_barrier_slowdown(2, 2, burst_steps=2.0, fast=1.0, slow=3.0, slow_share=0.25)
    assert ours == pytest.approx(expected / (2 * 1.5))


def test_one_straggler_of_ten_times_costs_6_4():
    assert straggler_barrier_slowdown(16, 10.0) == pytest.approx(6.40)
    assert straggler_barrier_slowdown(16, 1.0) == 1.0


@pytest.mark.parametrize(
    ("utilization", "measured"), [(0.2, 0.250), (0.5, 1.005), (0.8, 3.91), (0.9, 9.2)]
)
def test_claim_2_is_the_table(utilization: float, measured: float):
    assert queue_lag(utilization) == pytest.approx(measured, rel=0.025)
    assert queue_lag(1.0) == math.inf


@pytest.mark.parametrize("capacity", [1, 5, 40])
@pytest.mark.parametrize("rho", [0.3, 0.9, 1.7])
def test_a_bounded_queue_is_the_textbooks(rho: float, capacity: int):
    top = (capacity + 1) * rho ** (capacity + 1) / (1 - rho ** (capacity + 1))
    assert queue_lag(rho, capacity) == pytest.approx(rho / (1 - rho) - top)


def test_a_bounded_queue_is_half_full_when_balanced_and_bounded_when_flooded():
    assert queue_lag(1.0, 10) == pytest.approx(5.0)
    assert queue_lag(1e6, 400) == pytest.approx(400.0, rel=1e-6)
    assert queue_lag(0.0, 10) == 0.0
    assert queue_lag(0.9, 10_000) == pytest.approx(queue_lag(0.9))


def test_mean_lag_is_what_arrivals_find_in_a_simulated_queue():
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(1 / 0.7, 200_000))
    service, free, departures = rng.exponential(1.0, 200_000), 0.0, []
    for arrival, work in zip(arrivals, service, strict=True):
        free = max(arrival, free) + work
        departures.append(free)
    found = np.arange(200_000) - np.searchsorted(departures, arrivals)
    assert found.mean() == pytest.approx(queue_lag(0.7), rel=0.05)
