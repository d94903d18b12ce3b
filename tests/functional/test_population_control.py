"""Probability that an individual is refined by gradient steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.population_control import controlled_probability, fixed_probability

COUNTS = st.integers(1, 10_000)


@pytest.mark.parametrize(
    ("rl", "es", "desired", "expected"),
    [
        (1, 1, 0.5, 0.5),  # -50 * 0 + 0.5
        (101, 99, 0.5, 0.25),  # -50 * 0.005 + 0.5
        (99, 101, 0.5, 0.75),
        (51, 49, 0.5, 0.0),  # -50 * 0.01 + 0.5
        (1, 1, 0.1, 0.0),  # -50 * 0.4 + 0.5 < 0
        (1, 19, 0.1, 1.0),  # -50 * -0.05 + 0.5 > 1
    ],
)
def test_the_controlled_probability_by_hand(rl: int, es: int, desired: float, expected: float):
    p = controlled_probability(rl, es, desired_share=desired)
    assert p == pytest.approx(expected, abs=1e-12)


@given(COUNTS, COUNTS, st.floats(0, 1), st.floats(0.1, 1000))
def test_the_probability_is_one_and_falls_with_every_refined_individual(
    rl: int, es: int, desired: float, slope: float
):
    before = controlled_probability(rl, es, desired_share=desired, slope=slope)
    after = controlled_probability(rl + 1, es, desired_share=desired, slope=slope)
    assert 0.0 <= after <= before <= 1.0


@given(COUNTS, COUNTS)
def test_a_share_of_zero_is_never_and_of_one_always(rl: int, es: int):
    for rule in (controlled_probability, fixed_probability):
        assert rule(rl, es, desired_share=0.0) == 0.0
        assert rule(rl, es, desired_share=1.0) == 1.0


@given(COUNTS, COUNTS)
def test_the_fixed_probability_ignores_the_counts(rl: int, es: int):
    assert fixed_probability(rl, es, desired_share=0.3) == 0.3


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("rule", [controlled_probability, fixed_probability])
def test_a_share_outside_0_to_1_is_refused(rule, share: float):
    with pytest.raises(ValueError, match="desired_share must be 0 to 1"):
        rule(1, 1, desired_share=share)


def test_a_slope_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"slope must be above 0, got 0.0"):
        controlled_probability(1, 1, desired_share=0.5, slope=0.0)
