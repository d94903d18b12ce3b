"""Environments get a lean step only where it was tested and is equal here and now."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from campaigns import SLOW, cases
from whole_runs import lasting_bytes

from drumline.api.run import resume, train
from drumline.envs import make, step_choice
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.frame_skip import FrameSkip
from drumline.envs.lean_classic import CartPole
from drumline.envs.lean_mujoco import HalfCheetah, Hopper
from drumline.envs.lean_steps import LeanEnvironment
from drumline.envs.make import make_environment
from drumline.envs.step_choice import DIFFERS, GYMNASIUM_PATH, LEAN_PATH, StepChoice
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3
from drumline.runs.folder import RunFolder
from drumline.training.layout import SearchLayout


@pytest.fixture(autouse=True)
def _unchosen() -> Iterator[None]:
    """Choices last as long as a process; here each test makes its own."""
    step_choice._compared.cache_clear()
    yield
    step_choice._compared.cache_clear()


def stepping(spec: EnvironmentSpec, render_mode: str | None = None) -> Any:
    """The object whose `step` is called from the second episode on."""
    made = make_environment(spec, render_mode)
    for _ in range(2):
        made.environment.reset(seed=0)
    found = made.environment.step.__self__
    made.close()
    return found


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "CartPole-v1", "gymnasium:Pendulum-v1"])
def test_a_task_that_was_tested_has_a_lean_step(env_id: str):
    assert isinstance(stepping(EnvironmentSpec(env_id)), LeanEnvironment)
    assert step_choice.step_path(env_id, "gymnasium") == LEAN_PATH


def test_frames_are_skipped_over_lean_steps():
    found = stepping(EnvironmentSpec("Pendulum-v1", frame_skip=2))
    assert isinstance(found, FrameSkip)
    assert isinstance(found._environment.step.__self__, LeanEnvironment)


def test_a_time_limit_of_ones_own_keeps_the_lean_step():
    spec = EnvironmentSpec("Hopper-v5", options={"max_episode_steps": 7})
    assert isinstance(stepping(spec), Hopper)
    assert make_environment(spec).limit == 7
    assert step_choice.step_path("Hopper-v5", "gymnasium", spec.options) == LEAN_PATH
    other = {**spec.options, "ctrl_cost_weight": 0.1}
    assert step_choice.step_path("Hopper-v5", "gymnasium", other) != LEAN_PATH


@pytest.mark.parametrize(
    "spec",
    [
        EnvironmentSpec("HalfCheetah-v5", options={"ctrl_cost_weight": 0.1}),
        EnvironmentSpec("HalfCheetah-v4"),
        EnvironmentSpec("MountainCarContinuous-v0"),
        EnvironmentSpec("impure_environment:registered"),
        EnvironmentSpec("gymnasium.envs.classic_control.pendulum:PendulumEnv"),
    ],
)
def test_arguments_other_tasks_and_factories_keep_their_own_step(spec: EnvironmentSpec):
    assert type(stepping(spec)).__module__.startswith("gymnasium.envs")


def test_what_is_drawn_keeps_gymnasiums_step():
    found = stepping(EnvironmentSpec("CartPole-v1"), render_mode="rgb_array")
    assert type(found).__module__ == "gymnasium.envs.classic_control.cartpole"


def test_an_id_that_was_registered_with_arguments_keeps_gymnasiums_step(
    monkeypatch: pytest.MonkeyPatch,
):
    known = gymnasium.spec("Pendulum-v1")
    monkeypatch.setitem(gymnasium.registry, "Pendulum-v1", replace(known, kwargs={"g": 9.81}))
    assert stepping(EnvironmentSpec("Pendulum-v1")).g == 9.81
    assert "arguments" in step_choice.step_path("Pendulum-v1", "gymnasium")


@pytest.mark.parametrize("package", ["gymnasium", "mujoco"])
def test_other_versions_keep_gymnasiums_step(monkeypatch: pytest.MonkeyPatch, package: str):
    monkeypatch.setitem(step_choice.TESTED, package, ("0.0.1",))
    assert type(stepping(EnvironmentSpec("Hopper-v5"))).__name__ == "HopperEnv"
    words = step_choice.step_path("Hopper-v5", "gymnasium")
    assert words.startswith(GYMNASIUM_PATH)
    assert f"{package} " in words
    assert "not among the tested versions" in words
    cart = stepping(EnvironmentSpec("CartPole-v1"))
    assert isinstance(cart, CartPole) == (package == "mujoco")


class OtherReward(HalfCheetah):
    """Differs in the last bit of the rewards from the tenth step on."""

    steps = 0

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.steps += 1
        return observation, reward * (1 + 2**-52 * (self.steps > 10)), *rest


class Raising(HalfCheetah):
    """Raises as if an attribute of the simulation's had another name."""

    def step(self, action: Any) -> Any:
        raise AttributeError("no qpos")


CHEETAH = "gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv"


@pytest.mark.parametrize(
    ("other", "why"),
    [(OtherReward, "in the reward of step 10"), (Raising, "(it raised AttributeError: no qpos)")],
)
def test_a_step_that_differs_here_is_left_out(
    monkeypatch: pytest.MonkeyPatch, other: type[LeanEnvironment], why: str
):
    monkeypatch.setitem(step_choice.LEAN, CHEETAH, other)
    assert type(stepping(EnvironmentSpec("HalfCheetah-v5"))).__name__ == "HalfCheetahEnv"
    assert step_choice.step_path("HalfCheetah-v5", "gymnasium") == f"{DIFFERS} {why}"


SHORT = {"total_steps": 400, "evaluate_every": 0, "evaluate_episodes": 1}
HOPPING = ES("Hopper-v5", population_size=2, noise_table_size=1 << 15, hidden=(8,), **SHORT)


def test_a_run_records_its_step_and_says_once_that_a_lean_one_differs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    small = replace(HOPPING, env="Pendulum-v1")
    with caplog.at_level(logging.WARNING, "drumline"):
        equal = train(small, workers="inline", out=tmp_path / "equal")
    assert json.loads(equal.folder.config_json.read_text())["step_path"] == LEAN_PATH
    assert not caplog.records
    step_choice._compared.cache_clear()
    other = type("Other", (Raising,), {})
    entry = "gymnasium.envs.classic_control.pendulum:PendulumEnv"
    monkeypatch.setitem(step_choice.LEAN, entry, other)
    with caplog.at_level(logging.WARNING, "drumline"):
        differing = train(small, workers="inline", out=tmp_path / "differing")
    path = json.loads(differing.folder.config_json.read_text())["step_path"]
    assert path.startswith(DIFFERS)
    (record,) = caplog.records
    assert record.getMessage() == f"Pendulum-v1 is stepped by {path}"
    assert lasting_bytes(differing.folder) == lasting_bytes(equal.folder)


def test_a_resume_with_another_step_goes_on_with_the_same_bits_and_records_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    config = replace(HOPPING, env="Pendulum-v1", total_steps=1_600)
    whole = train(config, workers="inline", out=tmp_path / "whole")
    part = train(config, workers="inline", out=tmp_path / "part", last_update=2)
    step_choice._compared.cache_clear()
    monkeypatch.setitem(step_choice.TESTED, "gymnasium", ())
    rest = resume(RunFolder.open(part.path), SearchLayout(pool="inline"))
    document = json.loads(rest.folder.config_json.read_text())
    assert document["step_path"].startswith(GYMNASIUM_PATH)
    names = ("fingerprints.csv", "episodes.csv", "policy-last.safetensors")
    assert lasting_bytes(rest.folder, names) == lasting_bytes(whole.folder, names)


LANES = {"num_envs": 2, "alpha": 50, "minibatches": 2, "engine": "gymnasium", "epochs": 1}
LEARNING = {
    "steps_per_update": 300,
    "random_steps": 100,
    "replay_size": 2_000,
    "batch_size": 8,
    "hidden": (8,),
}
RUNS: dict[str, Any] = {
    "es": HOPPING,
    "hts": HTS("Walker2d-v5", **LANES, **SHORT),
    "ppo": PPO("CartPole-v1", **LANES, **SHORT),
    "td3": TD3("InvertedPendulum-v5", **LEARNING, **SHORT),
}


@pytest.mark.parametrize("name", cases(RUNS, quick=["es", "hts"], later=SLOW))
def test_runs_with_lean_steps_and_without_have_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
):
    lean = train(RUNS[name], workers="inline", out=tmp_path / "lean")
    none = StepChoice(None, GYMNASIUM_PATH)
    monkeypatch.setattr(make, "step_choice", lambda known, options: none)
    own = train(RUNS[name], workers="inline", out=tmp_path / "own")
    names = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")
    assert lasting_bytes(lean.folder, names) == lasting_bytes(own.folder, names)
