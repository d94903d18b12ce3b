"""Commands of a run of an objective, as they are typed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typed_commands import Terminal, environ, said_command

SMALL = [
    "--objective=objectives:noisy_sphere",
    "--dimensions=6",
    "--total-steps=48",
    "--population-size=8",
    "--noise=counter",
    "--evaluate-episodes=3",
    "--pool=inline",
    "--no-tensorboard",
]
OF_A_MODULE = ["es", "--objective=torch_objectives:near_ones", *SMALL[2:]]
REGRESSOR = "--policy=torch_objectives:Regressor"


def trained(terminal: Terminal, *words: str) -> Path:
    ended = terminal("train", "es", *SMALL, *words)
    assert ended.code == 0, ended.err
    return Path(next(line for line in ended.out.splitlines() if line.startswith("runs/")))


def test_a_run_is_named_by_its_objective_and_its_value_is_shown(terminal: Terminal):
    ended = terminal("train", "es", *SMALL)
    assert ended.code == 0, ended.err
    assert "es on objectives:noisy_sphere, seed 0, inline" in ended.out
    folder, value, commands = ended.out.splitlines()[-3:]
    assert folder.startswith("runs/es-objectives-noisy_sphere-s0-")
    assert value.startswith("objective -")
    assert value.endswith(", 3 calls")
    assert "drumline evaluate last --trust-code" in commands
    assert "enjoy" not in commands


def test_a_run_with_a_long_evaluation_is_whole(terminal: Terminal):
    trained(terminal, "--evaluate-episodes=8000", "--evaluate-every=0")
    ended = terminal("list")
    assert ended.code == 0, ended.err
    assert "finished" in ended.out


def test_more_episodes_than_a_line_takes_are_refused_before_a_folder_is_made(terminal: Terminal):
    ended = terminal("train", "es", *SMALL, "--evaluate-episodes=349526")
    assert ended.code == 2
    assert ended.err == (
        "drumline: --evaluate-episodes must be at most 349525, which fit a line of "
        "evaluations.csv, got 349526\n"
    )
    assert not Path("runs").exists()


def test_the_preset_of_objectives_is_taken(terminal: Terminal):
    ended = terminal("train", "es", *SMALL, "--print-config")
    config = json.loads(ended.out)
    assert (config["env"], config["std"], config["weight_decay"]) == ("", 0.1, 0.0)
    assert config["common_seeds"] is True


def test_every_command_that_calls_the_objective_asks_for_trust_first(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    trained(terminal, "--keep-scalars")
    for words in (["resume"], ["verify"], ["evaluate"], ["rebuild"], ["episode", "--member=1"]):
        command, *flags = words
        before = set(sys.modules)
        monkeypatch.delitem(sys.modules, "objectives", raising=False)
        refused = terminal(command, "last", *flags)
        assert refused.code == 2, words
        assert "names code to import (objectives:noisy_sphere)" in refused.err
        assert "objectives" not in set(sys.modules) - before
        assert "objectives" not in sys.modules
        allowed = terminal.line(said_command(refused.err))
        assert allowed.code == 0, allowed.err


@pytest.mark.parametrize("command", ["plot", "report", "compare"])
def test_pictures_import_nothing_of_the_objective(
    terminal: Terminal, command: str, monkeypatch: pytest.MonkeyPatch
):
    trained(terminal)
    monkeypatch.delitem(sys.modules, "objectives", raising=False)
    ended = terminal(command, "last")
    assert ended.code == 0, ended.err
    assert "objectives" not in sys.modules


def test_evaluate_gives_the_mean_of_its_calls(terminal: Terminal):
    trained(terminal)
    ended = terminal("evaluate", "last", "--episodes=4", "--trust-code", "--json")
    row = json.loads(ended.out)
    assert row["env_id"] == "objectives:noisy_sphere"
    assert row["mean"] == pytest.approx(sum(row["returns"]) / 4)
    assert row["lengths"] == [1, 1, 1, 1]
    again = terminal("evaluate", "last", "--episodes=4", "--trust-code", "--json")
    assert again.out == ended.out
    drawn = terminal("evaluate", "last", "--sample", "--trust-code")
    assert drawn.code == 2
    assert "--sample draws actions" in drawn.err


def test_there_is_nothing_to_enjoy(terminal: Terminal):
    trained(terminal)
    ended = terminal("enjoy", "last", "--trust-code")
    assert ended.code == 2
    assert "searched an objective, which has no picture" in ended.err
    assert terminal.line(said_command(ended.err)).code == 0


def test_verify_and_rebuild_agree_with_the_run(terminal: Terminal):
    trained(terminal, "--keep-scalars")
    ended = terminal("verify", "last", "--pool=inline", "--updates=all", "--trust-code")
    assert ended.out.startswith("equal: 6 updates")
    assert "equal to its fingerprint" in terminal("rebuild", "last", "--trust-code").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["es", "CartPole-v1", *SMALL], "give METHOD alone before --objective"),
        (["hts", "--objective=objectives:start"], "hts has no --objective"),
        (["es", "--objective=objectives:start"], "needs its number of parameters"),
        (["es", *SMALL, "--preset=paper"], "--preset paper is of an environment"),
        (["es", "--objective=objectives:lost", "--dimensions=1"], "cannot be imported"),
        (["es", *SMALL, "--subspace=7"], "--subspace 7 has more dimensions than there are"),
        ([*OF_A_MODULE, "--policy=torch_objectives:Tied"], "parameters that share storage"),
        ([*OF_A_MODULE, "--policy=torch_objectives:WholeNumbers"], "no noise can be added"),
        ([*OF_A_MODULE, "--policy=torch_objectives:Empty"], "has no parameters"),
        ([*OF_A_MODULE, REGRESSOR, "--trainable=lost"], "whose name matches --trainable 'lost'"),
        ([*OF_A_MODULE, REGRESSOR, "--noise=low-rank:64"], "no parameter is a matrix with more"),
        ([*OF_A_MODULE, REGRESSOR, "--subspace=9999"], "--subspace 9999 has more dimensions"),
    ],
)
def test_wrong_use_is_one_sentence_and_leaves_no_run(
    terminal: Terminal, words: list[str], said: str
):
    ended = terminal("train", *words)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("an_array", 2, "objectives:an_array returned a ndarray of shape (6,) instead of one"),
        ("not_a_number", 3, "objectives:not_a_number returned nan for seed"),
        ("remembers", 3, "objectives:remembers, called again with the same parameters and seed"),
        ("raises", 3, "KeyError: 'weights'"),
    ],
)
def test_a_bad_value_is_said_without_drumlines_traceback(
    terminal: Terminal, name: str, code: int, said: str
):
    ended = terminal("train", "es", *SMALL, f"--objective=objectives:{name}", "--quiet")
    assert ended.code == code
    assert said in ended.err
    assert ("Traceback" in ended.err) == (name == "raises")


SCRIPT = """
import drumline

def sphere(parameters, seed):
    return -float((parameters - 1.0) @ (parameters - 1.0))

config = drumline.ES(objective=sphere, dimensions=3, total_steps=80, noise="counter")
try:
    drumline.train(config, workers=2, out="refused")
except ValueError as error:
    print(error)
run = drumline.train(config, workers="inline", out="run")
print(run.parameters().shape, run.evaluate(episodes=2).returns)
"""


def test_a_function_of_the_script_itself_is_searched_inline(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environ(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    refused, found = done.stdout.splitlines()
    assert "'__main__:sphere' lives in the script or notebook itself" in refused
    assert 'workers="inline"' in refused
    assert found.startswith("(3,) (")
    assert not (tmp_path / "refused").exists()


def test_words_are_those_of_an_objective_wherever_a_run_is_shown(terminal: Terminal):
    folder = trained(terminal)
    page = terminal("report", "last")
    assert page.code == 0
    html = Path("report.html").read_text()
    assert "es on objectives:noisy_sphere" in html
    assert "<th>values</th>" in html
    assert "<th>calls</th>" in html
    assert "env steps" not in html
    assert "drumline train es --objective objectives:noisy_sphere --dimensions 6 " in html
    card = (folder / "card.md").read_text()
    assert card.count("mean objective -") == 1
    assert " over 3 calls" in card
    compared = terminal("compare", "last").out
    assert "final: mean objective of a run's last evaluation" in compared
    assert "at equal values (48) and time" in compared
    assert "objectives:noisy_sphere" in compared
    alone = terminal("episode", "last", "--member=2", "--trust-code").out
    assert "objective -" in alone
    assert alone.rstrip().endswith(", 1 values")


def test_progress_of_a_run_is_in_values(terminal: Terminal):
    shown = terminal("train", "es", *SMALL).out
    assert re.search(r"values \d+ of 48 \(\d+%\)  objective -\d.* values/s", shown)
    lines = terminal("train", "es", *SMALL, "--json").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows[0]["env_id"] == "objectives:noisy_sphere"
    assert rows[-2]["env_steps"] == 48
    assert not any("words" in row for row in rows)


def test_help_shows_the_flags_of_an_objective(terminal: Terminal):
    page = terminal("train", "es", "--objective", "objectives:noisy_sphere", "--help").out
    assert page.startswith("usage: drumline train es --objective objectives:noisy_sphere [flags]")
    assert "--dimensions" in page
    assert "--max-episode-steps" not in page
    assert "--dimensions" not in terminal("train", "es", "CartPole-v1", "--help").out
