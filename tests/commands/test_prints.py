"""Prints of environments do not flood the screen: a file has them, and the last line is said."""

import json
from pathlib import Path

import pytest
from typed_commands import TINY, Terminal, drumline

POOLED = [word for word in TINY if word != "--pool=inline"]
TD3 = ["--total-steps=60", "--replay-size=60", "--batch-size=4", "--hidden", "4"]
TD3 += ["--evaluate-episodes=2", "--random-steps=20", "--steps-per-update=20"]
COMMANDS = {
    "inline": ("es", TINY),
    "processes": ("es", [*POOLED, "--workers=2"]),
    "td3": ("td3", TD3),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_of_a_training_has_no_line_of_an_environment(terminal: Terminal, name: str):
    method, flags = COMMANDS[name]
    ended = terminal("train", method, "faulty_environments:Talks", *flags, "--json", "--out", "run")
    assert ended.code == 0
    assert all(json.loads(line)["event"] for line in ended.out.splitlines())
    assert "made a point" not in ended.out
    assert "step 3\n" not in ended.err
    with open("run/printed.txt") as file:
        lines = file.read().splitlines()
    assert lines[0] == "made a point"
    assert "step 12" in lines
    assert "what the environment prints goes to run/printed.txt" in ended.err
    said = f"{len(lines):,} lines were printed by the environment (run/printed.txt); the last: "
    assert said in ended.err
    more = terminal("resume", "run", "--total-steps=120", "--quiet", "--trust-code")
    assert (more.code, more.out, more.err) == (0, "", "")
    with open("run/printed.txt") as file:
        assert file.read().splitlines()[: len(lines)] == lines


@pytest.mark.parametrize("name", ["inline", "td3"])
def test_c_code_in_the_driver_prints_no_line_among_those_for_programs(name: str, tmp_path: Path):
    method, flags = COMMANDS[name]
    words = ["train", method, "faulty_environments:TalksInC", *flags, "--json", "--out", "run"]
    ended = drumline(*words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line)["event"] for line in ended.stdout.splitlines()][-1] == "end"
    lines = (tmp_path / "run/printed.txt").read_text().splitlines()
    assert "a word of its own" in lines
    assert "a word from C" in lines
    more = ["resume", "run", "--total-steps=120", "--json", "--trust-code"]
    ended = drumline(*more, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert all(json.loads(line)["event"] for line in ended.stdout.splitlines())


def test_a_config_is_printed_alone(tmp_path: Path):
    (tmp_path / "loud.py").write_text(
        "print('imported')\nfrom faulty_environments import Talks as Loud\n"
    )
    words = ["hts", "loud:Loud", "--total-steps=60", "--num-envs=2", "--alpha=10", "--hidden", "4"]
    ended = drumline("train", *words, "--minibatches=2", "--print-config", cwd=tmp_path)
    assert json.loads(ended.stdout)["env"] == "loud:Loud"
    words += ["--minibatches=2", "--evaluate-episodes=1", "--quiet", "--out=run"]
    assert drumline("train", *words, cwd=tmp_path).stdout == ""
    more = ["resume", "run", "--total-steps=120", "--trust-code", "--quiet"]
    assert drumline(*more, cwd=tmp_path).stdout == ""


@pytest.mark.faults
def test_the_environments_of_every_group_print_to_the_file(terminal: Terminal):
    flags = ["--total-steps=60", "--num-envs=2", "--alpha=10", "--hidden", "4", "--epochs=1"]
    flags += ["--minibatches=2", "--evaluate-episodes=2", "--learners=2", "--nodes=2"]
    ended = terminal("train", "hts", "faulty_environments:Talks", *flags, "--json", "--out", "run")
    assert ended.code == 0
    assert all(json.loads(line)["event"] for line in ended.out.splitlines())
    assert "step 3\n" not in ended.err
    with open("run/printed.txt") as file:
        lines = file.read().splitlines()
    # An environment of each executor, those that the groups look at, and the evaluators'.
    assert lines.count("made a point") >= 4
    assert lines.count("step 3") >= 2


def test_an_evaluation_prints_its_result_alone(terminal: Terminal):
    terminal.train("es", "faulty_environments:Talks", "--out", "run")
    ended = terminal("evaluate", "run", "--episodes=2", "--json", "--trust-code")
    assert json.loads(ended.out)["episodes"] == 2
    assert "lines were printed by the environment; the last: step 12" in ended.err
    assert ended.err.count("\n") == 1


def test_what_an_environment_said_before_it_was_refused_is_shown(terminal: Terminal):
    ended = terminal("train", "es", "faulty_environments:TalksAndFails", *TINY)
    assert ended.code == 2
    assert "no licence in /opt" in ended.err
    assert ended.out == ""


def test_a_check_counts_the_lines(terminal: Terminal):
    ended = terminal("check-env", "faulty_environments:Talks", "--seconds=0.05")
    assert ended.code == 0
    assert "note  output        " in ended.out
    assert "\nstep 3\n" not in ended.out


def test_a_run_that_prints_nothing_has_no_file_for_it(terminal: Terminal):
    terminal.train("es", "faulty_environments:Good", "--out", "run")
    assert not Path("run/printed.txt").exists()
