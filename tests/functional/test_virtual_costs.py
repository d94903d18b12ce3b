"""Virtual costs by rule: the multiply-adds that are counted are those that are made."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from drumline.algorithms import dense_stack
from drumline.algorithms.td3 import vectors_of_actor, vectors_of_critics
from drumline.algorithms.td3_steps import ActorStep, CriticStep, TD3Settings
from drumline.functional.virtual_costs import GradientRate, gradient_work
from drumline.policies.heads import Head
from drumline.recipes.aes import AES
from drumline.training.layout import SteadyLayout
from drumline.types import Minibatch

HEAD = Head("squashed", (-1.0,) * 2, (1.0,) * 2, (2,))
SETTINGS = TD3Settings(5, HEAD, (16, 12), (16, 12), "tanh", "leaky-relu", batch_size=32)


@pytest.fixture
def multiplied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The multiply-adds of every product that gradient steps make."""
    counted: list[int] = []
    made: Any = dense_stack.DenseStack._multiply

    def counting(self: Any, left: Any, right: Any, out: Any, biases: Any = None) -> None:
        counted.append(left.shape[0] * left.shape[1] * left.shape[2] * right.shape[2])
        made(self, left, right, out, biases)

    monkeypatch.setattr(dense_stack.DenseStack, "_multiply", counting)
    return counted


def test_the_rule_counts_what_gradient_steps_multiply(multiplied: list[int]):
    actor, critics = vectors_of_actor(SETTINGS), vectors_of_critics(SETTINGS)
    first = vectors_of_critics(replace(SETTINGS, critics=1))
    rows, size = SETTINGS.batch_size, HEAD.action_size
    work = gradient_work(SETTINGS.actor_sizes, SETTINGS.critic_sizes, 2, rows)
    ActorStep(SETTINGS)(torch.zeros(1, rows, 5), actor.live, first.live, actor.gradient)
    into_actions = rows * size * 16  # the first layer's share of the way back to the actions
    assert sum(multiplied) == work.actor + into_actions
    multiplied.clear()
    batch = Minibatch(
        torch.zeros(1, rows, 5),
        torch.zeros(1, rows, size),
        torch.zeros(rows),
        torch.from_numpy(np.zeros(rows, np.bool_)),
        torch.zeros(1, rows, 5),
        torch.zeros(1, rows, size),
    )
    CriticStep(SETTINGS)(batch, actor.live, critics.live, critics.live, critics.gradient)
    assert sum(multiplied) == work.critic


def test_a_step_takes_its_overhead_and_its_multiply_adds():
    assert GradientRate(overhead=700, picoseconds=30).step(100_000) == 3700


def costs(env_id: str, **changes: Any) -> tuple[int, int]:
    config = AES(env_id, **{**AES.PRESETS.get(env_id, {}), **changes})
    made = config.build(SteadyLayout(pool="inline")).costs
    return made.actor_step, made.critic_step


def test_wide_networks_take_what_was_measured_and_small_ones_a_fraction():
    # Measured on a core with AVX2, minibatches of 256: 5.5 and 10 ms for 400-300, 1.0 and 1.2 ms
    # for 64-64.
    assert costs("HalfCheetah-v5", batch_size=256) == pytest.approx((5.5e6, 10e6), rel=0.1)
    assert costs("Pendulum-v1", batch_size=256) == pytest.approx((1.0e6, 1.2e6), rel=0.15)


def test_a_smaller_batch_or_network_costs_less_and_a_given_cost_stays():
    wide = costs("Pendulum-v1")
    assert all(a < b for a, b in zip(costs("Pendulum-v1", batch_size=64), wide, strict=True))
    assert all(a < b for a, b in zip(costs("Pendulum-v1", hidden=(8,)), wide, strict=True))
    assert costs("Pendulum-v1", actor_step_cost=7) == (7, wide[1])
