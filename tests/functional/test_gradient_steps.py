"""Optimiser steps against the plain loop over float64 scalars."""

import math

import numpy as np
import pytest

from drumline.functional.gradient_steps import adam_step, momentum_step


def ascents(steps: int, size: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((steps, size)).astype(np.float32)


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_adam_is_the_papers_loop_with_coupled_decay(weight_decay: float):
    theta = np.linspace(-1, 1, 5, dtype=np.float32)
    plain, m, v = theta.astype(np.float64).tolist(), [0.0] * 5, [0.0] * 5
    first = second = np.zeros(5, np.float32)
    for t, ascent in enumerate(ascents(20, 5), start=1):
        theta, first, second = adam_step(
            theta, ascent, first, second, t, learning_rate=0.01, weight_decay=weight_decay
        )
        for j in range(5):
            g = -float(ascent[j]) + weight_decay * plain[j]
            m[j] = 0.9 * m[j] + 0.1 * g
            v[j] = 0.999 * v[j] + 0.001 * g * g
            rate = 0.01 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            plain[j] -= rate * m[j] / (math.sqrt(v[j]) + 1e-8)
    assert theta.dtype == np.float32
    assert theta == pytest.approx(np.array(plain), abs=2e-6)


def test_adams_first_step_goes_up_by_the_learning_rate():
    zero = np.zeros(2, np.float32)
    ascent = np.array([3.0, -0.5], np.float32)
    step = adam_step(zero, ascent, zero, zero, 1, learning_rate=0.1, weight_decay=0.0)
    assert step.parameters == pytest.approx(np.array([0.1, -0.1]), rel=1e-4)


def test_momentum_is_the_references_loop():
    theta = np.linspace(-1, 1, 5, dtype=np.float32)
    plain, velocity = theta.astype(np.float64), np.zeros(5)
    held = np.zeros(5, np.float32)
    for ascent in ascents(20, 5):
        theta, held = momentum_step(theta, ascent, held, learning_rate=0.1, weight_decay=0.02)
        velocity = 0.9 * velocity + 0.1 * (-ascent.astype(np.float64) + 0.02 * plain)
        plain = plain - 0.1 * velocity
    assert theta.dtype == np.float32
    assert theta == pytest.approx(plain, abs=2e-6)


def test_steps_leave_their_arguments_alone():
    theta, ascent = np.ones(3, np.float32), np.ones(3, np.float32)
    zero = np.zeros(3, np.float32)
    adam_step(theta, ascent, zero, zero, 1, learning_rate=0.1, weight_decay=0.1)
    momentum_step(theta, ascent, zero, learning_rate=0.1, weight_decay=0.1)
    assert theta.tolist() == ascent.tolist() == [1.0] * 3
    assert not zero.any()
