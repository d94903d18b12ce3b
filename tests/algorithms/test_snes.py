"""Asynchronous SNES by ask and tell."""

import math

import numpy as np
import pytest
from algorithms.individuals_examples import told

from drumline.algorithms.individuals import live
from drumline.algorithms.snes import SNES
from drumline.functional.natural_gradient import snes_learning_rate


def small(**options) -> SNES:
    """A window of two on one parameter."""
    return SNES(np.array([1.0]), **{"seed": 0, "initial_std": 2.0, "window": 2, **options})


def test_a_step_by_hand():
    strategy = small(mean_rate=1.0, std_rate=0.5)
    strategy.tell([told(5.0, fitness=1.0, index=0)])
    assert strategy.parameters.tolist() == [1.0]  # one alone has no rank
    strategy.tell([told(3.0, fitness=2.0, index=1)])
    # s = 1 (best) and 2, cut to √1 + 2/3; u = ±½; rates halved by the window of two:
    # μ = 1 + 0.5 * 2 * 0.5 * (1 - 5/3); ln σ += 0.25 / 2 * 0.5 * (1 - (5/3)²)
    assert strategy.parameters == pytest.approx([1 - 1 / 3])
    std = 2 * math.exp(0.0625 * (1 - 25 / 9))
    assert strategy.published()["variance"] == pytest.approx([std**2])


def test_from_a_full_window_on_every_arrival_moves_the_mean():
    strategy, moved = SNES(np.zeros(3), seed=0, initial_std=0.1, window=4), []
    for _ in range(8):
        (candidate,) = strategy.ask(1)
        row = strategy.tell([live(candidate, float(candidate.vector[0]))])
        moved.append(row["update_norm"] > 0.0)
    assert moved == [False] * 3 + [True] * 5


def test_equal_individuals_move_nothing():
    strategy = small(window=3)
    for index in range(6):
        strategy.tell([told(2.0, fitness=1.0, index=index)])
    assert strategy.parameters == pytest.approx([1.0])


def test_the_std_stops_at_its_floor():
    strategy = small(std_rate=50.0, std_floor=0.5)
    for index in range(30):
        strategy.tell([told(*strategy.parameters.tolist(), fitness=-float(index), index=index)])
        strategy.tell([told(float(strategy.parameters[0]) + 9.0, fitness=-99.0, index=index)])
    assert strategy.published()["variance"] == pytest.approx([0.25])


def test_the_default_rates_are_those_of_snes():
    # d = 1: 4 + ⌊3 ln 1⌋ = 4 and (3 + 0) / 5
    assert SNES(np.zeros(1), seed=0).state().tensors["archive_vectors"].shape == (4, 1)
    assert SNES(np.zeros(100), seed=0).state().tensors["archive_vectors"].shape == (17, 100)
    assert snes_learning_rate(1) == 0.6


@pytest.mark.parametrize("std", [0.0, 1e-9, math.inf])
def test_a_std_below_its_floor_is_refused(std: float):
    with pytest.raises(ValueError, match="initial_std must be at least std_floor"):
        SNES(np.zeros(2), seed=0, initial_std=std)
