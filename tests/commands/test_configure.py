"""Configs by a method's name: presets as on the command line, and objects of a script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import arguments_environment as module
import pytest
from typed_commands import Terminal

import drumline
from drumline.recipes.es import ES

SMALL = {"total_steps": 40, "population_size": 4, "hidden": (4,), "noise_table_size": 4096}
LESS = {**SMALL, "evaluate_every": 0, "evaluate_episodes": 2}
FLAGS = [
    *("--total-steps=40", "--population-size=4", "--hidden", "4", "--noise-table-size=4096"),
    *("--evaluate-every=0", "--evaluate-episodes=2"),
]


def test_a_flag_takes_away_what_a_preset_has_no_use_for_beside_it(terminal: Terminal):
    words = ("train", "aes", "Walker2d-v5", "--mean-rule=full-move")
    printed = json.loads(terminal(*words, "--print-config").out)
    assert (printed["mean_rule"], printed["range_spread"]) == ("full-move", 0.0)
    refused = terminal(*words, "--range-spread=2", "--print-config")
    assert "--range-spread goes with --mean-rule" in " ".join(refused.err.split())


def test_a_method_by_name_begins_with_the_preset_of_the_command_line(terminal: Terminal):
    printed = json.loads(terminal("train", "es", "Hopper-v5", "--seed=3", "--print-config").out)
    config = drumline.configure("es", "Hopper-v5", seed=3, engine="gymnasium")
    assert json.loads(json.dumps(config.__dict__)) == printed
    assert drumline.configure("es", "Hopper-v5", preset=None) == ES(env="Hopper-v5")
    paper = drumline.configure("es", "Humanoid-v5", preset="paper")
    assert paper.population_size == 10_000
    assert drumline.configure("es", objective="m:f", dimensions=3).std == ES.OBJECTIVE["std"]


def test_a_line_says_that_there_is_no_preset(
    caplog: pytest.LogCaptureFixture, terminal: Terminal, tmp_path: Path
):
    config = drumline.configure("es", module.Scaled)
    assert "es has no preset for arguments_environment:Scaled" in caplog.text
    caplog.clear()
    drumline.configure("es", "Hopper-v5")
    drumline.configure("es", module.Scaled, preset=None)
    assert not caplog.text
    ended = terminal("train", "es", config.env, *FLAGS, "--pool=inline", f"--out={tmp_path / 'a'}")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[0].startswith("es has no preset for arguments_environment:Scaled")
    quiet = (*FLAGS, "--pool=inline", "--quiet", f"--out={tmp_path / 'b'}")
    assert not terminal("train", "es", config.env, *quiet).err
    typo = terminal("train", "es", "Hoper-v5", f"--out={tmp_path / 'c'}")
    assert typo.code == 2
    assert typo.err.startswith("drumline: unknown environment 'Hoper-v5'")


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        (("es", "Hopper-v5"), {"learning": 1}, "no setting 'learning'; did you mean learning_rate"),
        (("es", "Hopper-v5"), {"preset": "papr"}, "no --preset 'papr'"),
        (("sac", "Hopper-v5"), {}, "unknown method 'sac'"),
        (("es", "Hopper-v5"), {"objective": "m:f"}, "stands in place of an environment"),
    ],
)
def test_what_no_config_has_is_one_sentence(words: tuple, settings: dict, message: str):
    with pytest.raises(ValueError, match=message):
        drumline.configure(*words, **settings)
    with pytest.raises(ValueError, match="train takes a config alone"):
        drumline.train(ES(env="CartPole-v1"), seed=3)


def test_arguments_and_classes_are_part_of_a_run(tmp_path: Path, terminal: Terminal):
    run = drumline.train(
        *("es", module.Scaled),
        **{**LESS, "env_kwargs": {"scale": 0.0, "offset": 2.0}, "preset": None},
        workers="inline",
        out=tmp_path / "run",
    )
    assert run.evaluate(episodes=3).returns == (4.0, 4.0, 4.0)
    assert run.folder.document["config"]["env_kwargs"] == '{"offset": 2.0, "scale": 0.0}'
    ended = terminal("verify", str(run.path), "--pool=inline", "--trust-code")
    assert ended.code == 0, ended.err
    typed = ("--env-kwargs", '{"offset": 2, "scale": 0}')
    place = f"--out={tmp_path / 'typed'}"
    ended = terminal("train", "es", "arguments_environment:Scaled", *FLAGS, *typed, place)
    assert ended.code == 0, ended.err
    assert "return 4.0" in ended.out


def test_an_environment_is_checked_with_its_arguments(terminal: Terminal):
    words = ("check-env", "arguments_environment:Scaled", "--seconds=0.01")
    ended = terminal(*words, "--env-kwargs", '{"scale": 3}')
    assert ended.code == 0, ended.out
    ended = terminal(*words, "--env-kwargs", '{"scala": 3}')
    assert ended.code == 2
    assert "scala" in ended.out + ended.err


SCRIPT = """
import sys
import drumline
from arguments_environment import Scaled

class Mine(Scaled):
    pass

settings = dict(total_steps=40, population_size=4, hidden=(4,), noise_table_size=4096,
                evaluate_every=0, evaluate_episodes=2, preset=None)
try:
    drumline.train("es", Mine, workers=1, out="refused", **settings)
except ValueError as error:
    print(error)
run = drumline.train("es", Mine, workers="inline", out="mine", **settings)
again = drumline.load("mine", trust_code=True).resume(workers="inline", total_steps=80)
print(run.config.env, again.metrics[-1]["env_steps"])
"""


def test_classes_of_a_script_train_and_resume_in_its_process_alone(
    tmp_path: Path, terminal: Terminal
):
    (tmp_path / "script.py").write_text(SCRIPT)
    path = [str(Path(drumline.__file__).parents[1]), str(Path(module.__file__).parent)]
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ":".join(path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused, trained = done.stdout.splitlines()
    assert "__main__:Mine" in refused
    assert 'workers="inline"' in refused
    assert trained == "__main__:Mine 80.0"
    for words in (
        *(("resume", "--total-steps=120"), ("resume", "--total-steps=120", "--pool=inline")),
        *(("verify",), ("verify", "--pool=inline")),
    ):
        command, *flags = words
        ended = terminal(command, str(tmp_path / "mine"), *flags, "--trust-code")
        assert ended.code == 2
        assert "lived in the script or notebook that began the run" in ended.err


def test_public_exceptions_are_those_that_calls_raise():
    assert drumline.__version__[0].isdigit()
    assert issubclass(drumline.EnvironmentProblem, ValueError)
    with pytest.raises(drumline.RunError):
        drumline.load("/nowhere/at/all")
