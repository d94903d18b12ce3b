"""Evaluating: what is drawn, what the seed decides, and whose code runs."""

import json
from pathlib import Path

import impure_environment
import numpy as np
import pytest
import safetensors.numpy
from typed_commands import TINY, Terminal, said_command

import drumline

ROTATION = [
    "--total-steps=64",
    "--num-envs=2",
    "--alpha=16",
    "--minibatches=2",
    "--epochs=1",
    "--hidden",
    "4",
    "--evaluate-episodes=1",
    "--engine=gymnasium",
    "--pool=inline",
    "--quiet",
]


def returns(terminal: Terminal, *words: str) -> dict[str, list[float]]:
    ended = terminal("evaluate", *words, "--json", "--episodes=4")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["es", "CartPole-v1", *TINY], "softmax"),
        (["es", "Pendulum-v1", *TINY, "--action-bins=uniform:3", "--action-noise-std=0"], "softm"),
        (["es", "Pendulum-v1", *TINY, "--action-noise-std=0.5"], "std 0.5"),
        (["hts", "CartPole-v1", *ROTATION], "distribution"),
        (["hts", "Pendulum-v1", *ROTATION], "distribution"),
    ],
    ids=["discrete", "bins", "continuous", "categorical", "gaussian"],
)
def test_sampling_says_what_it_draws_and_the_seed_decides_every_number(
    terminal: Terminal, words: list[str], said: str
):
    assert terminal("train", *words, "--out=run", "--quiet").code == 0
    sampled = returns(terminal, "run", "--sample")
    assert said in sampled["actions"]
    assert returns(terminal, "run", "--sample") == sampled
    assert returns(terminal, "run", "--sample", "--seed=1")["returns"] != sampled["returns"]
    plain = returns(terminal, "run")
    assert plain["actions"] == "deterministic"
    assert plain == returns(terminal, "run", "--deterministic")
    assert plain["returns"] != sampled["returns"]
    assert said in terminal("evaluate", "run", "--sample").out
    run = drumline.load("run").evaluate(4, policy="best", sample=True)
    assert list(run.returns) == sampled["returns"]


@pytest.mark.parametrize("words", [["es", *TINY, "--action-noise-std=0"], ["ars", "--short"]])
def test_a_deterministic_policy_cannot_be_sampled(terminal: Terminal, words: list[str]):
    method, *flags = words
    if method == "ars":
        flags = [word for word in TINY if word not in ("--hidden", "4")]
    assert terminal("train", method, "Pendulum-v1", *flags, "--out=run", "--quiet").code == 0
    refused = terminal("evaluate", "run", "--sample")
    assert refused.code == 2
    assert "this policy is deterministic" in refused.err
    assert refused.err.count("\n") == 1


def test_the_first_episodes_of_a_longer_evaluation_are_those_of_a_shorter(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    for flag in ("--sample", "--deterministic"):
        short = json.loads(terminal("evaluate", "run", flag, "--json", "--episodes=2").out)
        assert returns(terminal, "run", flag)["returns"][:2] == short["returns"]


def test_one_episode_has_a_mean_and_no_interval(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    said = terminal("evaluate", "run", "--episodes=1").out
    assert "1 episode" in said
    assert "nan" not in said


@pytest.mark.parametrize(
    ("episodes", "said"),
    [("0", "must be 1 or more, got 0"), (str(10**18), "must be at most 1,000,000, got 1,000,")],
)
def test_more_episodes_than_memory_holds_are_refused_in_one_sentence(
    terminal: Terminal, episodes: str, said: str
):
    terminal.train("es", "CartPole-v1", "--out=run")
    ended = terminal("evaluate", "run", f"--episodes={episodes}")
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_an_environment_that_puts_out_nan_fails_the_command_in_one_sentence(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    terminal.train("es", "impure_environment:Counting", "--out=run")
    monkeypatch.setattr(impure_environment.Counting, "observe", lambda self: np.full(2, np.nan))
    ended = terminal("evaluate", "run", "--trust-code")
    assert ended.code == 3
    assert "the observation is NaN in impure_environment:Counting, episode seed" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", ["evaluate", "enjoy", "resume", "verify", "episode", "rebuild"])
def test_code_that_a_run_names_is_imported_only_if_trusted_and_the_message_says_how(
    terminal: Terminal, command: str
):
    terminal.train("es", "impure_environment:Drawn", "--out=a run")
    refused = terminal(command, "a run")
    assert refused.code == 2
    assert "impure_environment:Drawn" in refused.err
    assert said_command(refused.err) == f"drumline {command} 'a run' --trust-code"
    inline = " --pool=inline" if command in ("resume", "verify") else ""
    assert terminal.line(said_command(refused.err) + inline).code == 0


@pytest.mark.parametrize("command", ["plot", "verify"])
def test_comparing_files_runs_no_code_and_needs_no_trust(terminal: Terminal, command: str):
    terminal.train("es", "impure_environment:Counting", "--out=run")
    assert terminal(command, "run", "run").code == 0


@pytest.mark.parametrize("command", ["evaluate", "enjoy"])
def test_code_that_only_the_policy_file_names_needs_trust_as_well(terminal: Terminal, command: str):
    terminal.train("es", "CartPole-v1", "--out=run")
    path = Path("run/policy-best.safetensors")
    with safetensors.safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["drumline"])
    tensors = safetensors.numpy.load_file(path)
    document["environment"] |= {"id": "os:system", "options": {"command": "touch stolen"}}
    del document["sha256"]
    safetensors.numpy.save_file(tensors, path, metadata={"drumline": json.dumps(document)})
    refused = terminal(command, "run")
    assert refused.code == 2
    assert "os:system" in refused.err
    assert not Path("stolen").exists()


def test_numbers_of_the_environments_info_are_told(terminal: Terminal, tmp_path: Path):
    flags = ("--total-steps=60", "--population-size=2", "--hidden", "2", "--evaluate-episodes=1")
    terminal.train("es", "told_environment:Reaching", *flags, "--out=run")
    words = ("evaluate", "run", "--trust-code", "--episodes=3")
    told = json.loads(terminal(*words, "--json").out)
    assert told["info"].keys() == {"is_success", "steps_left"}
    assert told["info"]["steps_left"] == 0.0
    assert "is_success " in terminal(*words).out
