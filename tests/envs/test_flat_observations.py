"""Observations in parts: refused with the flag that helps, and one vector with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.make import make_environment
from drumline.recipes.methods import METHODS, config_from

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

PARTS = "impure_environment:Parts"
LESS: dict[str, Any] = {"evaluate_every": 0, "evaluate_episodes": 2, "total_steps": 40}
CONFIGS: dict[str, Any] = {
    "es": {"population_size": 4, "noise_table_size": 4096},
    "td3": {"steps_per_update": 20, "random_steps": 10, "batch_size": 4, "replay_size": 40},
    "a2c": {"num_envs": 2, "alpha": 5},
}


def config_of(method: str, **more: Any) -> Any:
    fields = {**LESS, **CONFIGS[method], "hidden": (4,), **more}
    return METHODS[method].config(PARTS, **fields)


def test_a_vector_has_the_parts_in_the_order_of_their_space():
    environment = make_environment(EnvironmentSpec(PARTS, flatten=True)).environment
    first, _ = environment.reset(seed=1)
    assert first.shape == environment.observation_space.shape == (7,)
    environment.step(np.zeros(1))
    second = environment.step(np.zeros(1))[0]
    assert second[0] == 2.0
    assert second[1] == first[1]
    np.testing.assert_array_equal(second[2:], [0.0, 0.0, 1.0, 1.0, 1.0])


def test_a_vector_stays_as_it_is():
    plain, flat = (
        make_environment(EnvironmentSpec("CartPole-v1", flatten=flatten)).environment
        for flatten in (False, True)
    )
    assert type(plain._environment) is type(flat._environment)


def test_a_table_becomes_a_vector_and_lanes_take_it():
    spec = LanesSpec(EnvironmentSpec("lane_environments:byte_grids", flatten=True), 0, 0, 2)
    lanes = spec()
    assert lanes.observation_space.shape == (20,)
    assert lanes.begin(0).shape == (2, 20)


@pytest.mark.parametrize("method", CONFIGS)
def test_without_the_flag_the_refusal_names_it(method: str):
    with pytest.raises(EnvironmentProblem, match=r"Dict observations.*give --flatten-obs"):
        METHODS[method].built(config_of(method), METHODS[method].layout(pool="inline"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("OtherParts", "cannot be flattened .KeyError: 'more'.: it has other parts"),
        ("Sentences", "Sequence observations .*whose length changes"),
    ],
)
def test_what_cannot_be_flattened_is_one_sentence(name: str, message: str):
    spec = EnvironmentSpec(f"impure_environment:{name}", flatten=True)
    with pytest.raises(EnvironmentProblem, match=message):
        make_environment(spec).environment.reset(seed=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoSpace", "it has no observation_space: set self.observation_space in __init__"),
        ("OtherSpace", "its observation_space is a _thread._local, no space of Gymnasium"),
    ],
)
def test_a_space_that_is_none_is_refused_with_and_without_the_flag(name: str, message: str):
    for flatten in (False, True):
        spec = EnvironmentSpec(f"faulty_environments:{name}", flatten=flatten)
        with pytest.raises(EnvironmentProblem, match=message):
            make_environment(spec)


def test_envpools_observations_cannot_be_flattened():
    spec = EnvironmentSpec("CartPole-v1", "envpool", flatten=True)
    for make in (lambda: make_environment(spec), LanesSpec(spec, 0, 0, 2)):
        with pytest.raises(EnvironmentProblem, match="goes with --engine gymnasium"):
            make()


@pytest.mark.parametrize("method", CONFIGS)
def test_a_run_is_trained_and_evaluated_with_it(method: str, tmp_path: Path):
    config = config_of(method, flatten_observations=True)
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    document = run.folder.document
    assert document["config"]["flatten_observations"] is True
    assert run.policy.observation_shape == (7,)
    assert run.policy.to_torch() is not None
    assert len(run.evaluate(episodes=2).returns) == 2
    older = {k: v for k, v in document["config"].items() if k != "flatten_observations"}
    recorded = config_from(document)
    assert config_from({**document, "config": older}) == replace(
        recorded, flatten_observations=False
    )
