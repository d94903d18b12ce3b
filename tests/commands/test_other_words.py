"""Names and numbers as people know them from elsewhere are understood, or answered with ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typed_commands import Terminal, environ

from drumline.api.other_names import OTHER_NAMES
from drumline.recipes.methods import METHODS


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("ppo", "--lr", "3"), "there is no --lr here: it is called --learning-rate"),
        (("ppo", "--n_steps=5"), "there is no --n-steps here: it is called --alpha"),
        (("es", "--sigma", "0.1"), "there is no --sigma here: it is called --std"),
        (("td3", "--total-timesteps=5"), "it is called --total-steps"),
    ],
)
def test_a_flag_of_another_library_is_answered_with_ours(
    terminal: Terminal, typed: tuple[str, ...], said: str
):
    method, *flags = typed
    ended = terminal("train", method, "CartPole-v1", *flags)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.parametrize("words", [("--total-steps", "1e5"), ("--total-steps=1E5",)])
def test_a_whole_number_may_have_an_exponent(terminal: Terminal, words: tuple[str, ...]):
    ended = terminal("train", "es", "CartPole-v1", *words, "--print-config")
    assert json.loads(ended.out)["total_steps"] == 100_000


@pytest.mark.parametrize("number", ["1.5", "1.23e1", "1e-5", "many"])
def test_what_is_no_whole_number_is_still_refused(terminal: Terminal, number: str):
    ended = terminal("train", "es", "CartPole-v1", "--total-steps", number, "--print-config")
    assert ended.code == 2
    assert "--total-steps" in ended.err


def test_a_number_with_an_exponent_that_is_no_whole_one_stays(terminal: Terminal):
    words = ("--learning-rate", "1e-3", "--print-config")
    assert json.loads(terminal("train", "es", "CartPole-v1", *words).out)["learning_rate"] == 0.001


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PPO", "did you mean ppo?"),
        ("CEM_RL", "did you mean cem-rl?"),
        ("sac", "own_off_policy:SAC in the folder examples"),
        ("cma-es", "aes --strategy cma"),
        ("OpenAI-ES", "did you mean es?"),
    ],
)
def test_a_method_of_another_name_is_found(terminal: Terminal, name: str, said: str):
    ended = terminal("train", name, "CartPole-v1")
    assert ended.code == 2
    assert said in ended.err


def test_a_method_behind_its_environment_is_found(terminal: Terminal):
    ended = terminal("train", "CartPole-v1", "ppo")
    assert ended.code == 2
    assert "METHOD comes before ENV: drumline train ppo CartPole-v1" in ended.err


def test_every_name_elsewhere_leads_to_a_flag_that_some_method_has():
    fields = {name for method in METHODS.values() for name in vars(method.config("CartPole-v1"))}
    fields |= {"workers", "out"}
    assert {name.replace("-", "_") for name in OTHER_NAMES.values()} <= fields
    assert not fields.intersection(name.replace("-", "_") for name in OTHER_NAMES)


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("faulty_environments:Goood", "did you mean faulty_environments:Good?"),
        ("faulty_environments:Qqqq", "its environments are Good, Remembers,"),
        ("faulty_environments.py:Good", "without .py, as in faulty_environments:Good"),
        ("./envs/mine.py:Good", "without .py, as in envs.mine:Good"),
    ],
)
def test_a_misspelt_environment_of_ones_own_is_named(terminal: Terminal, env_id: str, said: str):
    ended = terminal("train", "es", env_id)
    assert ended.code == 2
    assert said in ended.err
    assert "Hopper" not in ended.err


SCRIPT = """
import gymnasium, drumline
from faulty_environments import Good

class Mine(Good):
    pass

gymnasium.register("Mine-v0", entry_point=Mine)
gymnasium.register("Theirs-v0", entry_point="faulty_environments:Good")
for env in ("Mine-v0", "Theirs-v0"):
    config = drumline.ES(env, population_size=4, total_steps=24, noise_table_size=4096, hidden=(4,))
    try:
        drumline.train(config, out=f"run-{env}", workers=2)
    except ValueError as error:
        print(error)
    print(drumline.train(config, out=f"inline-{env}", workers="inline").metrics[-1]["update"])
"""


def test_an_id_that_only_a_script_has_registered_is_refused_with_the_way_to_name_it(
    tmp_path: Path,
):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=environ(),
    )
    mine, _, theirs, _ = done.stdout.splitlines()
    assert "'Mine-v0' of the script or notebook itself is registered in this process alone" in mine
    assert "as in my_envs:Mine-v0" in mine
    assert "name its class, faulty_environments:" in theirs
    assert {path.name for path in tmp_path.iterdir()} == {"inline-Mine-v0", "inline-Theirs-v0"}
