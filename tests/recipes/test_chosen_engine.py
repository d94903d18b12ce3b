"""`--engine auto` takes Gymnasium's environment where EnvPool's cannot be had as asked."""

import logging
from dataclasses import replace

import pytest

from drumline.recipes.chosen_environment import chosen_environment, engine_of
from drumline.recipes.methods import find_method
from drumline.recipes.ppo import PPO

CART = PPO(env="CartPole-v1")


def test_arguments_that_envpool_refuses_are_gymnasiums(caplog: pytest.LogCaptureFixture):
    config = replace(CART, env_kwargs='{"sutton_barto_reward": true}')
    with caplog.at_level(logging.WARNING, "drumline"):
        assert engine_of(config, "envpool") == "gymnasium"
    assert "takes no such --env-kwargs" in caplog.text
    assert chosen_environment(config, prefer="envpool").engine == "gymnasium"
    assert find_method("ppo").resolved(config).engine == "gymnasium"


def test_observations_to_flatten_are_gymnasiums():
    config = PPO(env="FrozenLake-v1", flatten_observations=True)
    assert engine_of(config, "envpool") == "gymnasium"


def test_others_stay_envpools():
    assert engine_of(CART, "envpool") == "envpool"
    named = replace(CART, engine="envpool", env_kwargs='{"sutton_barto_reward": true}')
    assert engine_of(named, "envpool") == "envpool"
    sticky = PPO(env="Pong-v5", env_kwargs='{"repeat_action_probability": 0.25}')
    assert engine_of(sticky, "envpool") == "envpool"
