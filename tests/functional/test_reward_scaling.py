"""Reward scaling against the loop: per environment over t, then environments by index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional import moments
from drumline.functional.reward_scaling import RewardScaling, fold, initial_scaling, scaled
from drumline.types import Moments


def storage(steps: int, environments: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(steps, environments)).astype(np.float32)
    return rewards, rng.random((steps, environments)) < 0.2


def slow_fold(scaling, rewards, ended, gamma) -> RewardScaling:
    """Plain Python floats, one environment after the other."""
    running = scaling.discounted_returns.tolist()
    total = scaling.moments
    for b in range(rewards.shape[1]):
        seen = []
        for t in range(rewards.shape[0]):
            running[b] = gamma * running[b] + float(rewards[t, b])
            seen.append(running[b])
            if ended[t, b]:
                running[b] = 0.0
        mean = 0.0
        for value in seen:
            mean += value
        mean /= len(seen)
        squares = 0.0
        for value in seen:
            squares += (value - mean) * (value - mean)
        own = Moments(float(len(seen)), np.array([mean]), np.array([squares]))
        total = moments.merge(total, own)
    return RewardScaling(np.array(running), total)


def bits(scaling: RewardScaling) -> tuple:
    held = scaling.moments
    parts = (scaling.discounted_returns, held.mean, held.squares)
    return held.count, *(part.tobytes() for part in parts)


@given(st.integers(1, 40), st.integers(1, 9), st.floats(0, 1), st.integers(0, 99))
def test_folding_has_the_bits_of_the_slow_loop(steps, environments, gamma, seed):
    fast = slow = initial_scaling(environments)
    for part in range(2):
        rewards, ended = storage(steps, environments, seed + part)
        fast, slow = fold(fast, rewards, ended, gamma), slow_fold(slow, rewards, ended, gamma)
    assert bits(fast) == bits(slow)


def test_memory_layout_does_not_change_a_bit():
    rewards, ended = storage(50, 7)
    start = initial_scaling(7)
    other = fold(start, np.asfortranarray(rewards), np.asfortranarray(ended), 0.99)
    assert bits(fold(start, rewards, ended, 0.99)) == bits(other)


def test_a_discounted_return_runs_on_from_interval_to_interval():
    rewards, ended = storage(60, 3)
    whole = fold(initial_scaling(3), rewards, ended, 0.9)
    half = fold(initial_scaling(3), rewards[:25], ended[:25], 0.9)
    halves = fold(half, rewards[25:], ended[25:], 0.9)
    assert halves.discounted_returns.tobytes() == whole.discounted_returns.tobytes()
    assert halves.moments.squares == pytest.approx(whole.moments.squares, rel=1e-12)


def test_an_episodes_end_starts_the_return_again():
    rewards = np.ones((3, 1), np.float32)
    ended = np.array([[False], [True], [False]])
    folded = fold(initial_scaling(1), rewards, ended, 0.5)
    assert folded.discounted_returns.tolist() == [1.0]
    assert folded.moments.mean[0] == pytest.approx((1 + 1.5 + 1) / 3, rel=1e-4)


def test_folding_leaves_its_arguments_alone():
    start = initial_scaling(3)
    before = bits(start)
    rewards, ended = storage(10, 3)
    fold(start, rewards, ended, 0.9)
    assert bits(start) == before


def test_scaled_rewards_are_divided_by_the_spread_and_clipped():
    scaling = RewardScaling(np.zeros(1), Moments(4.0, np.array([3.0]), np.array([16.0])))
    rewards = np.array([[1.0, -3.0, 100.0, -100.0]], np.float32)
    ours = scaled(rewards, scaling)
    assert ours.dtype == np.float32
    assert ours.tolist() == [[0.5, -1.5, 10.0, -10.0]]


def test_before_any_reward_the_scale_is_one():
    rewards = np.array([[0.25, -2.0]], np.float32)
    assert scaled(rewards, initial_scaling(2)) == pytest.approx(rewards, rel=1e-6)
