"""All cores step where the steps are known to take much longer than learning."""

from typing import Any

import pytest

from drumline.recipes import core_shares
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.core_shares import all_cores_step
from drumline.recipes.hts import HTS
from drumline.training.layout import RotationLayout

LIGHT: dict[str, Any] = {
    "engine": "gymnasium",
    "num_envs": 16,
    "alpha": 128,
    "epochs": 4,
    "minibatches": 4,
}
HEAVY = {**LIGHT, "epochs": 10, "minibatches": 32}
A2C: dict[str, Any] = {
    **LIGHT,
    "alpha": 20,
    "learner": "a2c",
    "correction": "vtrace",
    "epochs": 1,
    "minibatches": 1,
}


def shared(cores: int = 2, **fields: Any) -> bool:
    return all_cores_step(parts_of(HTS(**fields)), cores)


@pytest.mark.parametrize(
    ("env", "fields", "expected"),
    [
        ("HalfCheetah-v5", LIGHT, True),
        ("Hopper-v5", LIGHT, True),
        ("HalfCheetah-v5", A2C, True),
        ("HalfCheetah-v5", HEAVY, False),
        ("Hopper-v5", HEAVY, False),
        ("Swimmer-v5", HEAVY, False),
        ("CartPole-v1", {**LIGHT, "num_envs": 64, "alpha": 32, "minibatches": 8}, False),
        ("CartPole-v1", A2C, False),
        ("HalfCheetah-v5", {**LIGHT, "hidden": (1024, 1024)}, False),
    ],
)
def test_the_longer_side_decides_as_it_was_measured(
    env: str, fields: dict[str, Any], expected: bool
):
    assert shared(env=env, **fields) is expected


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": "envpool"},
        {"env_kwargs": {"forward_reward_weight": 2.0}},
        {"env": "MountainCarContinuous-v0"},
    ],
)
def test_steps_of_unknown_cost_leave_the_learner_its_core(fields: dict[str, Any]):
    assert not shared(**{**LIGHT, "env": "HalfCheetah-v5", **fields})


def test_a_step_that_is_not_lean_here_has_no_known_cost(monkeypatch: pytest.MonkeyPatch):
    assert shared(env="HalfCheetah-v5", **LIGHT)
    monkeypatch.setattr(core_shares, "step_path", lambda *_: "Gymnasium's own step")
    assert not shared(env="HalfCheetah-v5", **LIGHT)


def test_an_mlp_that_acts_on_the_cores_leaves_its_learner_on_a_device_one():
    assert not shared(env="HalfCheetah-v5", device="cuda", **LIGHT)


def test_all_cores_step_where_a_network_acts_and_learns_on_a_device():
    images = {**LIGHT, "env": "pixel_environment:make", "network": "nature-cnn"}
    assert [shared(cores, device="cuda", **images) for cores in (1, 2, 16)] == [False, True, True]
    assert not shared(16, **images)


def test_groups_share_the_rows_of_a_minibatch():
    parts = parts_of(HTS(env="HalfCheetah-v5", **LIGHT))
    assert all_cores_step(parts, 2)
    assert not all_cores_step(parts, 2, groups=4)


@pytest.mark.parametrize("cores", [1, 4, 16])
def test_one_core_or_many_keep_the_learner_apart(cores: int):
    assert not shared(cores, env="HalfCheetah-v5", **LIGHT)


@pytest.mark.parametrize(
    ("fields", "asked", "expected"),
    [
        (LIGHT, {}, 2),
        (HEAVY, {}, 1),
        (LIGHT, {"executors": 1}, 1),
        (LIGHT, {"pool": "inline"}, 1),
        (HEAVY, {"workers": 2}, 2),
    ],
)
def test_the_layout_has_as_many_executors_unless_the_user_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    asked: dict[str, Any],
    expected: int,
):
    monkeypatch.setattr(RotationLayout, "cores", property(lambda self: 2))
    made = HTS(env="HalfCheetah-v5", **fields).build(RotationLayout(**asked))
    assert made.staff.executors == expected
    assert made.staff.words.startswith("inline" if "pool" in asked else f"{expected} executor")
