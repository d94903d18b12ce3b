"""SNES's utilities and step, against numbers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.natural_gradient import (
    longest_deviation,
    nes_utilities,
    snes_learning_rate,
    snes_step,
    standardized,
)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_utilities_by_hand():
    # N = 2: ln 2 - ln 1 and max(0, ln 2 - ln 2) = 0: (1, 0) - 1/2
    assert nes_utilities(2) == pytest.approx([0.5, -0.5])
    # N = 4: ln 3, ln 1.5, 0, 0 over ln 4.5, less 1/4
    expected = [math.log(3) / math.log(4.5) - 0.25, math.log(1.5) / math.log(4.5) - 0.25]
    assert nes_utilities(4) == pytest.approx([*expected, -0.25, -0.25])


@given(st.integers(2, 100))
def test_utilities_sum_to_zero_and_never_rise(count: int):
    utilities = nes_utilities(count)
    assert utilities.sum() == pytest.approx(0.0, abs=1e-12)
    assert (np.diff(utilities) <= 0).all()


def test_one_individual_has_no_rank():
    with pytest.raises(ValueError, match="at least 2 individuals, got 1"):
        nes_utilities(1)


def test_rates_by_hand():
    # d = 4: (3 + ln 4) / 10; √4 + 8 / 6
    assert snes_learning_rate(4) == pytest.approx((3 + math.log(4)) / 10)
    assert longest_deviation(4) == pytest.approx(2 + 4 / 3)


def test_a_deviation_is_counted_in_stds_and_cut_to_length():
    mean, std = vector(1.0, 0.0), vector(2.0, 0.5)
    assert standardized(vector(7.0, 2.0), mean, std, 10.0).tolist() == [3.0, 4.0]
    assert standardized(vector(7.0, 2.0), mean, std, 2.5) == pytest.approx([1.5, 2.0])


def test_a_step_by_hand():
    mean, std = vector(1.0), vector(2.0)
    # Σ u s = 0.5 * 3 - 0.5 * 1 = 1: μ = 1 + 0.1 * 2 * 1; Σ u (s² - 1) = 0.5 * 8 - 0.5 * 0 = 4:
    # σ = 2 exp(0.2 / 2 * 4)
    moved, scaled = snes_step(
        mean, std, [vector(3.0), vector(1.0)], np.array([0.5, -0.5]), mean_rate=0.1, std_rate=0.2
    )
    assert moved == pytest.approx([1.2])
    assert scaled == pytest.approx([2 * math.exp(0.4)])


def test_one_far_coordinate_cannot_blow_the_std_up():
    far = [vector(1e6), vector(0.0)]
    _, std = snes_step(vector(0.0), vector(1.0), far, nes_utilities(2), mean_rate=1.0, std_rate=1.0)
    assert std == pytest.approx([math.e])
