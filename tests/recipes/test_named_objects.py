"""Classes, functions and dicts in configs: their names, and the objects that have none."""

import json
from dataclasses import asdict
from typing import Any

import arguments_environment as module
import gymnasium
import pytest

from drumline.recipes.methods import METHODS, config_from
from drumline.recipes.named_objects import arguments_of


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_a_class_and_arguments_of_its_environment(name: str):
    config = METHODS[name].config(env=module.Scaled, env_kwargs={"scale": 2, "offset": 1.5})
    assert config.env == "arguments_environment:Scaled"
    assert config.env_kwargs == '{"offset": 1.5, "scale": 2}'
    assert arguments_of(config) == {"offset": 1.5, "scale": 2}
    document = {"method": name, "config": json.loads(json.dumps(asdict(config)))}
    assert config_from(document) == config
    assert METHODS[name].config(env=module.made).env == "arguments_environment:made"


def test_arguments_that_say_the_same_are_the_same_config():
    es = METHODS["es"].config
    typed = es(env="Hopper-v5", env_kwargs=' {"b":2, "a" :1}')
    assert typed == es(env="Hopper-v5", env_kwargs={"a": 1, "b": 2})
    assert es(env="Hopper-v5", env_kwargs="{}") == es(env="Hopper-v5")


def test_a_run_folder_from_before_there_were_arguments_has_none():
    config = asdict(METHODS["td3"].config(env="Hopper-v5"))
    del config["env_kwargs"]
    assert config_from({"method": "td3", "config": config}).env_kwargs == ""


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("env", lambda: None, "has no name by which a worker could import it"),
        ("env", module.Scaled.Nested, "at the top of a module"),
        ("env", module.old_shadowed, "is another object than the one given"),
        ("env", 3, "got a int: an environment that is made already"),
        ("policy", 3, "policy takes a name, or a class or function"),
    ],
)
def test_an_object_that_no_worker_could_import_is_refused(field: str, value: Any, words: str):
    with pytest.raises(ValueError, match=words):
        METHODS["es"].config(**{"env": "Hopper-v5", field: value})


def test_an_environment_that_is_made_already_is_refused():
    made = gymnasium.make("CartPole-v1")
    with pytest.raises(ValueError, match="made already cannot be sent"):
        METHODS["hts"].config(env=made)
    made.close()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("{scale: 2}", "is no JSON"),
        ("[1]", "one object"),
        ("3", "one object"),
        ({1: 2}, "one object"),
        ('{"render_mode": "human"}', "render_mode, which drumline enjoy gives"),
        ('{"max_episode_steps": 5}', "which --max-episode-steps gives"),
        ({"seed": 5}, "seed, which the run gives"),
        ({"scale": float("nan")}, "can hold what JSON can"),
        ({"scale": object()}, "can hold what JSON can"),
        ({"table": {0: 1.0}}, "can hold what JSON can.*names in an object are text, got 0"),
        ({"table": {0: 1.0, "b": 2}}, "names in an object are text, got 0"),
        ({"a": {"rows": [{}, ({None: 1},)]}}, "names in an object are text, got None"),
    ],
)
def test_arguments_that_no_file_could_hold_are_refused(typed: Any, words: str):
    with pytest.raises(ValueError, match=words):
        METHODS["es"].config(env="Hopper-v5", env_kwargs=typed)


def test_an_objective_has_no_arguments_of_an_environment():
    with pytest.raises(ValueError, match=r"--env-kwargs .* goes with an environment"):
        METHODS["es"].config(objective="m:f", dimensions=2, env_kwargs={"a": 1})


@pytest.mark.parametrize("name", ["es", "td3", "hts"])
def test_arguments_reach_the_environment_whose_own_step_is_taken(name: str):
    from drumline.api.run_document import step_path_of

    config = METHODS[name].made(
        "HalfCheetah-v5", engine="gymnasium", env_kwargs={"forward_reward_weight": 2.0}
    )
    recipe = config.build(METHODS[name].layout(pool="inline"))
    lanes = recipe.parts.lanes.environment if name == "hts" else None
    searched = recipe.environment if name == "td3" else lanes or recipe.searched
    assert searched.options == {"forward_reward_weight": 2.0}
    assert step_path_of(config).startswith("Gymnasium's own step: the task has arguments")


def test_a_wrong_argument_is_one_sentence():
    config = METHODS["es"].config(env="CartPole-v1", env_kwargs={"gravitation": 3})
    with pytest.raises(ValueError, match=r"'CartPole-v1' cannot be made: TypeError.*gravitation"):
        config.build(METHODS["es"].layout(pool="inline"))
    config = METHODS["hts"].config(env="Pong-v5", env_kwargs={"gravitation": 3})
    with pytest.raises(ValueError, match="EnvPool cannot make 'Pong-v5'"):
        config.build(METHODS["hts"].layout(pool="inline"))
