"""Values that an environment's own code returns are checked in its first episode."""

import logging
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs.returning_environment import SEEN, Returning

from drumline.api.run import train
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.interface import CheckedEnvironment
from drumline.envs.make import make_environment
from drumline.errors import WorkerError
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3

RESETS: dict[str, tuple[Any, str]] = {
    "observation alone": (SEEN, r"reset\(\) returned an array of shape \[3\] instead of \(obs"),
    "two-dimensional alone": (np.zeros(2), "instead of .observation, info.: return observation"),
    "three values": ((SEEN, {}, {}), "reset.. returned 3 values .an array of shape .3., a dict"),
    "info is none": ((SEEN, None), "whose info is a dict"),
    "list": (([0.0] * 3, {}), "returned a list as observation: return a NumPy array"),
    "other shape": ((np.zeros(4), {}), r"shape \[4\], but the observation_space has \[3\]"),
    "text": ((np.array(["a", "b", "c"]), {}), "an observation of <U1, not of numbers"),
    "complex": ((SEEN.astype(complex), {}), "of complex128, which the .* of float32 would cut"),
}
STEPS: dict[str, tuple[Any, str]] = {
    "four values": ((SEEN, 1.0, False, {}), "four values are Gym's old form"),
    "observation alone": (SEEN, "step.. returned an array of shape .3. instead of .observation, r"),
    "list": (([0.0] * 3, 1.0, False, False, {}), "step.. returned a list as observation"),
    "array reward": ((SEEN, np.ones(1), False, False, {}), "an array of shape .1. as reward"),
    "no reward": ((SEEN, None, False, False, {}), "a NoneType as reward: return a number"),
    "text as reward": ((SEEN, "1.0", False, False, {}), "a str as reward: return a number"),
    "complex reward": ((SEEN, 1 + 2j, False, False, {}), "a complex as reward: return a number"),
    "text in an array": ((SEEN, np.array("1"), False, False, {}), r"of shape \[\] as reward"),
    "terminated is none": ((SEEN, 1.0, None, False, {}), "as terminated: return True or False"),
    "truncated is text": ((SEEN, 1.0, False, "no", {}), "as truncated: return True or False"),
    "info is a list": ((SEEN, 1.0, False, False, []), "a list as info: return a dict"),
}


@pytest.mark.parametrize("name", RESETS)
def test_a_reset_in_another_form_is_refused_with_what_to_return(name: str):
    returned, message = RESETS[name]
    checked = CheckedEnvironment(Returning(reset=returned), "mine:Env")
    with pytest.raises(EnvironmentProblem, match=message) as refused:
        checked.reset(seed=1)
    assert str(refused.value).startswith("mine:Env: reset()")


@pytest.mark.parametrize("name", STEPS)
def test_a_step_in_another_form_is_refused_with_what_to_return(name: str):
    returned, message = STEPS[name]
    checked = CheckedEnvironment(Returning(step=returned), "mine:Env")
    checked.reset(seed=1)
    checked.step(0)
    checked.step(0)
    with pytest.raises(EnvironmentProblem, match=message):
        checked.step(0)


@pytest.mark.parametrize(
    "step",
    [
        (SEEN, 1, np.bool_(False), 0, {}),
        (SEEN, np.float32(1.0), False, False, {"any": 1}),
        (SEEN.astype(np.float64), np.array(1.0), False, False, {}),
        (SEEN, Fraction(1, 2), False, False, {}),
        (SEEN, Decimal("0.5"), False, False, {}),
        (SEEN, np.bool_(True), False, False, {}),
    ],
)
def test_what_can_be_used_is_taken_as_it_is(step: Any):
    checked = CheckedEnvironment(Returning(step=step), "mine:Env")
    checked.reset(seed=1)
    assert [checked.step(0) for _ in range(3)][-1] is step


def test_images_of_another_type_than_their_space_are_refused():
    inner = Returning(reset=(np.zeros((4, 9, 9)), {}))
    inner.observation_space = gymnasium.spaces.Box(0, 255, (4, 9, 9), np.uint8)
    checked = CheckedEnvironment(inner, "mine:Env")
    with pytest.raises(EnvironmentProblem, match="of float64, but the observation_space has bytes"):
        checked.reset(seed=1)


@pytest.mark.parametrize("foreign", [False, True])
def test_later_episodes_are_not_checked_and_their_steps_cost_no_call(foreign: bool):
    inner = Returning()
    checked = CheckedEnvironment(inner, "mine:Env", foreign=foreign)
    checked.reset(seed=1)
    checked.reset(seed=2)
    assert checked.step == inner.step
    assert (checked.reset == inner.reset) is not foreign


def test_an_observation_outside_its_space_is_said_once(caplog: pytest.LogCaptureFixture):
    far = (SEEN + 5.0, 1.0, False, False, {})
    checked = CheckedEnvironment(Returning(step=far), "mine:Env")
    checked.reset(seed=1)
    with caplog.at_level(logging.WARNING, "drumline"):
        for _ in range(6):
            checked.step(0)
    (record,) = caplog.records
    assert "mine:Env: step() returned an observation outside" in record.getMessage()
    assert "step 3 of the first episode" in record.getMessage()


SMALL = {"total_steps": 60, "evaluate_episodes": 1}
LEARNING = {**SMALL, "warmup_steps": 10, "replay_size": 100, "batch_size": 4, "hidden": (4,)}
METHODS = {
    "es": ES("CartPole-v1", population_size=4, noise_table_size=4096, hidden=(4,), **SMALL),
    "hts": HTS("CartPole-v1", num_envs=2, alpha=8, minibatches=2, **SMALL),
    "ppo": PPO("CartPole-v1", num_envs=2, alpha=8, minibatches=2, **SMALL),
    "aes": AES("CartPole-v1", **LEARNING),
    "td3": TD3("CartPole-v1", replay_size=100, batch_size=4, hidden=(4,), random_steps=5, **SMALL),
}


@pytest.mark.parametrize("fault", ["bad_reset", "bad_step"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_it(tmp_path: Any, method: str, fault: str):
    config = replace(METHODS[method], env=f"envs.returning_environment:{fault}")
    with pytest.raises((EnvironmentProblem, WorkerError)) as refused:
        train(config, workers="inline", out=tmp_path / "run")
    error: Any = refused.value
    problem = error if isinstance(error, EnvironmentProblem) else error.cause
    assert isinstance(problem, EnvironmentProblem)
    assert "instead of (observation" in str(problem)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("rarely_short", "the observation is an array of shape .1."),
        ("rarely_unrewarded", "the reward"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_names_the_place_of_a_fault_in_a_later_episode(
    tmp_path: Any, method: str, fault: str, said: str
):
    config = replace(METHODS[method], env=f"late_fault_environment:{fault}", total_steps=400)
    kinds = EnvironmentProblem, FloatingPointError  # NumPy's rows take None for NaN
    with pytest.raises(kinds, match=rf"^{said} .* step \d"):
        train(config, workers="inline", out=tmp_path / "run")


def test_gymnasiums_own_environments_are_made_with_the_check():
    made = make_environment(EnvironmentSpec("CartPole-v1"))
    assert isinstance(made.environment, CheckedEnvironment)
    made.environment.reset(seed=0)
    made.close()
