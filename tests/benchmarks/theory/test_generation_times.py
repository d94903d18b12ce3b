"""Time of a generation with a barrier, against known results on order statistics."""

import math

import numpy as np
import pytest
from theory.generation_times import generation_seconds


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("processes", [1, 2, 5, 10])
def test_exponential_durations_take_the_sum_of_their_order_statistics(processes: int):
    known = 10 / processes + sum(1 / k for k in range(1, processes + 1)) - 1
    assert generation_seconds(10, processes, 1.0, rng()) == pytest.approx(known, rel=0.02)


def test_ten_on_five_lose_1_64_with_exponential_and_1_33_with_gamma_4_durations():
    exponential, gamma = (generation_seconds(10, 5, shape, rng()) / 2 for shape in (1.0, 4.0))
    assert exponential == pytest.approx(1.64, abs=0.03)
    assert gamma == pytest.approx(1.33, abs=0.03)


def test_equal_durations_lose_what_does_not_divide():
    assert generation_seconds(10, 5, math.inf, rng()) == 2
    assert generation_seconds(10, 4, math.inf, rng()) == 3
