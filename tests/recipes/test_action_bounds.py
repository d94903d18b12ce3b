"""A Gaussian policy whose actions' bounds are far from ±1 is a cause for a word."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from drumline.recipes.action_bounds import far_bounds
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.ppo import PPO


class Wide(gymnasium.Env):
    """Actions from 0 to 100."""

    observation_space = Box(-1.0, 1.0, (2,), np.float32)
    action_space = Box(0.0, 100.0, (1,), np.float32)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 100.0), (-50.0, 50.0), (-0.02, 0.02), (5.0, 6.0), (-3.0, -2.0)]
)
def test_bounds_that_a_normal_variable_hardly_meets_are_named(low: float, high: float):
    sentence = far_bounds(Box(low, high, (2,), np.float32))
    assert f"between {low:g} and {high:g}" in sentence
    assert "gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)" in sentence


@pytest.mark.parametrize("env_id", ["Humanoid-v5", "Pendulum-v1", "InvertedPendulum-v5"])
def test_those_of_usual_tasks_are_not(env_id: str):
    with gymnasium.make(env_id) as made:
        assert far_bounds(made.action_space) == ""


@pytest.mark.parametrize("space", [Discrete(3), Box(-np.inf, np.inf, (2,), np.float32)])
def test_spaces_without_bounds_are_not(space: gymnasium.Space):
    assert far_bounds(space) == ""


def test_a_training_says_it(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "drumline"):
        parts_of(PPO(env=f"{__name__}:Wide", num_envs=2, alpha=4, minibatches=1, hidden=(4,)))
    assert "actions lie between 0 and 100" in caplog.text
