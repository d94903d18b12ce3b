"""Moves of the mean: every rule against numbers worked out by hand, then by properties."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.mean_updates import (
    StepSize,
    absolute_baseline,
    best_first,
    cem_weights,
    fixed_linear,
    fixed_sigmoid,
    full_move,
    moved_mean,
    relative_baseline,
    weighted_mean,
)

FITNESS = st.floats(-1e6, 1e6)
VECTORS = st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3).map(
    lambda values: np.array(values, np.float32)
)
RULES: list[StepSize] = [
    full_move,
    partial(fixed_linear, fitness_range=600.0),
    partial(fixed_sigmoid, fitness_range=600.0),
    partial(absolute_baseline, baseline=-600.0),
    partial(relative_baseline, fitness_range=600.0),
]


@pytest.mark.parametrize(
    ("fitness", "mean_fitness", "expected"), [(3.0, 2.0, 1.0), (2.0, 2.0, 0.0), (1.0, 2.0, 0.0)]
)
def test_full_move_takes_only_what_is_better(fitness: float, mean_fitness: float, expected: float):
    assert full_move(fitness, mean_fitness) == expected


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (0.0, 0.5),  # (0 + 8) / (0 + 16)
        (8.0, 2 / 3),  # (8 + 8) / (8 + 16)
        (24.0, 0.8),  # 32 / 40
        (-4.0, 1 / 3),  # 4 / 12
        (-8.0, 0.0),
        (-9.0, 0.0),
    ],
)
def test_relative_baseline_by_hand(difference: float, expected: float):
    p = relative_baseline(100.0 + difference, 100.0, fitness_range=8.0)
    assert p == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("fitness", "mean_fitness", "expected"),
    [
        (6.0, 2.0, 2 / 3),  # b = -2: 8 / (8 + 4)
        (2.0, 2.0, 0.5),  # 4 / 8
        (-1.0, 5.0, 0.125),  # 1 / (1 + 7)
        (-2.0, 2.0, 0.0),
        (-3.0, 2.0, 0.0),
        (1.0, -2.0, 1.0),  # 3 / (3 + 0)
        (1.0, -9.0, 1.0),  # the release: 3 / (3 - 7) < 0, clipped to 0
        (-2.0, -2.0, 0.0),  # 0 / 0 in the release
    ],
)
def test_absolute_baseline_by_hand(fitness: float, mean_fitness: float, expected: float):
    assert absolute_baseline(fitness, mean_fitness, baseline=-2.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("difference", "negative_ratio", "expected"),
    [(2.0, 0.0, 0.25), (80.0, 0.0, 1.0), (-2.0, 0.0, 0.0), (-2.0, 0.5, -0.125), (-80.0, 0.5, -0.5)],
)
def test_linear_by_hand(difference: float, negative_ratio: float, expected: float):
    p = fixed_linear(difference, 0.0, fitness_range=8.0, negative_ratio=negative_ratio)
    assert p == expected


def test_sigmoid_by_hand():
    # 1 / (1 + exp(-ln 3)) = 1 / (1 + 1/3); its mirror 1 / (1 + 3)
    step = 10.0 * np.log(3.0)
    assert fixed_sigmoid(7.0 + step, 7.0, fitness_range=10.0) == pytest.approx(0.75)
    assert fixed_sigmoid(7.0 - step, 7.0, fitness_range=10.0) == pytest.approx(0.25)
    assert fixed_sigmoid(7.0, 7.0, fitness_range=10.0) == 0.5
    assert fixed_sigmoid(-1e9, 0.0, fitness_range=1e-3) == 0.0


@pytest.mark.parametrize("rule", RULES)
@given(FITNESS, FITNESS)
def test_every_step_size_is_a_share(rule: StepSize, fitness: float, mean_fitness: float):
    assert 0.0 <= rule(fitness, mean_fitness) <= 1.0


@pytest.mark.parametrize("rule", RULES)
@given(FITNESS, FITNESS, FITNESS)
def test_a_fitter_individual_never_moves_the_mean_less(
    rule: StepSize, one: float, other: float, mean_fitness: float
):
    assert rule(min(one, other), mean_fitness) <= rule(max(one, other), mean_fitness)


@given(FITNESS, FITNESS, st.floats(1e-2, 1e6))
def test_the_relative_baseline_is_an_absolute_one_that_follows_the_mean(
    fitness: float, mean_fitness: float, fitness_range: float
):
    absolute = absolute_baseline(fitness, mean_fitness, baseline=mean_fitness - fitness_range)
    relative = relative_baseline(fitness, mean_fitness, fitness_range=fitness_range)
    assert relative == pytest.approx(absolute, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("rule", [fixed_linear, fixed_sigmoid, relative_baseline])
@pytest.mark.parametrize("fitness_range", [0.0, -1.0, float("nan")])
def test_a_range_that_is_not_positive_is_refused(rule, fitness_range: float):
    with pytest.raises(ValueError, match="fitness_range must be above 0"):
        rule(1.0, 0.0, fitness_range=fitness_range)


def test_a_negative_ratio_beyond_a_whole_step_is_refused():
    with pytest.raises(ValueError, match=r"negative_ratio must be 0 to 1, got 1.5"):
        fixed_linear(0.0, 1.0, fitness_range=1.0, negative_ratio=1.5)


def test_a_moved_mean_by_hand():
    mean, target = np.array([2.0, -4.0], np.float32), np.array([6.0, 0.0], np.float32)
    # 0.75 * 2 + 0.25 * 6 = 3; 0.75 * -4 = -3. Away: 1.5 * 2 - 0.5 * 6 = 0; 1.5 * -4 = -6.
    assert moved_mean(mean, target, 0.25).tolist() == [3.0, -3.0]
    assert moved_mean(mean, target, -0.5).tolist() == [0.0, -6.0]


@given(VECTORS, VECTORS)
def test_no_step_is_the_mean_and_a_whole_step_the_individual(mean: np.ndarray, target: np.ndarray):
    assert moved_mean(mean, target, 0.0).tobytes() == mean.tobytes()
    assert (moved_mean(mean, target, 1.0) == target).all()


@given(VECTORS, VECTORS, st.floats(0, 1))
def test_a_moved_mean_lies_between_both(mean: np.ndarray, target: np.ndarray, p: float):
    moved = moved_mean(mean, target, p)
    slack = 1e-5 * np.maximum(np.abs(mean), np.abs(target))
    assert (moved >= np.minimum(mean, target) - slack).all()
    assert (moved <= np.maximum(mean, target) + slack).all()


def test_cem_weights_by_hand():
    # K = 2: ln 3 = 1.0986 and ln 1.5 = 0.4055, together ln 4.5 = 1.5041
    assert cem_weights(2) == pytest.approx([1.0986123 / 1.5040774, 0.4054651 / 1.5040774])
    assert cem_weights(1).tolist() == [1.0]


@given(st.integers(1, 60))
def test_cem_weights_fall_and_sum_to_one(elites: int):
    weights = cem_weights(elites)
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights) < 0).all()
    assert (weights > 0).all()


def test_no_elites_are_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        cem_weights(0)
    with pytest.raises(ValueError, match="1 to 2, got 3"):
        best_first(np.zeros(2), 3)


def test_the_best_come_first_and_ties_keep_their_order():
    assert best_first(np.array([1.0, 5.0, 2.0, 5.0, -3.0]), 4).tolist() == [1, 3, 2, 0]


def test_a_weighted_mean_by_hand():
    vectors = [np.array([1.0, 2.0], np.float32), np.array([5.0, -2.0], np.float32)]
    # 0.75 * 1 + 0.25 * 5 = 2; 0.75 * 2 - 0.25 * 2 = 1
    assert weighted_mean(vectors, np.array([0.75, 0.25])).tolist() == [2.0, 1.0]
