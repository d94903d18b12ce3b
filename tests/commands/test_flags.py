"""The flags that every command shares, what they print, and what a command imports."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from campaigns import FAULTS, cases
from typed_commands import TINY, Terminal, environ

from drumline.cli import COMMANDS
from drumline.commands.train import WHEN
from drumline.recipes.methods import METHODS

HEAVY = {"numpy", "torch", "gymnasium", "scipy", "matplotlib", "envpool", "mujoco", "imageio"}


def imported(cwd: Path, *commands: Sequence[str]) -> list[set[str]]:
    """The top-level modules that a process has imported after each of some commands."""
    code = (
        "import sys; from drumline import cli\n"
        "for line in sys.argv[1:]:\n"
        "    try: cli.run(line.split())\n"
        "    except SystemExit: pass\n"
        "    print('modules', *(name for name in sys.modules if '.' not in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(" ".join, commands)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
        env=environ(),
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("modules ")]
    assert len(lines) == len(commands)
    return [set(line.split()[1:]) for line in lines]


def test_help_imports_nothing_heavy(tmp_path: Path):
    helps = [[command, "--help"] for command in COMMANDS if command != "train"]
    assert not HEAVY & imported(tmp_path, *helps)[-1]


def test_a_command_imports_only_what_it_needs(terminal: Terminal, tmp_path: Path):
    terminal.train("es", "CartPole-v1", "--out=run")
    words = (
        ("train", "es", "CartPole-v1", "--help"),
        ("verify", "run", "run"),
        ("evaluate", "run"),
    )
    _, light, evaluating = imported(tmp_path, *words)
    assert not {"torch", "gymnasium", "matplotlib"} & light
    assert not {"torch", "matplotlib", "envpool", "mujoco"} & evaluating
    (plotting,) = imported(tmp_path, ("plot", "run"))
    assert not {"torch", "gymnasium", "envpool"} & plotting


def test_train_takes_the_flags_that_every_method_shares(terminal: Terminal):
    for method in ("es", "ars", "hts"):
        flags = ["--seed=7", "--total-steps=9000", "--engine=gymnasium", "--workers=1"]
        flags += ["--pool=inline", "--checkpoint-minutes=1", "--no-tensorboard", "--quiet"]
        flags += ["--json", "--out=run", "--print-config"]
        printed = json.loads(terminal("train", method, "CartPole-v1", *flags).out)
        assert printed["seed"] == 7
        assert printed["total_steps"] == 9000
        assert printed["engine"] == "gymnasium"
    assert not Path("run").exists()


@pytest.mark.parametrize("method", METHODS)
def test_threads_of_the_update_are_refused_where_no_update_has_tiles(
    terminal: Terminal, method: str
):
    env = "Pendulum-v1" if method == "erl" else "CartPole-v1"
    ended = terminal("train", method, env, "--update-threads=2", "--print-config")
    if method in ("es", "ars"):
        assert ended.code == 0, ended.err
    else:
        assert ended.code == 2
        assert "--update-threads" in ended.err


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("es", "0 for one per available core"),
        ("hts", "0 for one for each core that the learner leaves, at least one"),
        ("impala", "0 for one for each core that the learner leaves, at least one"),
        ("a2c", "0 for none, this process steps them itself"),
        ("ppo", "0 for none, this process steps them itself"),
        ("aes", "0: one per logical worker and one for the critic"),
        ("td3", "Processes that run the episodes of evaluations; 0 for one per available core"),
    ],
)
def test_help_says_how_many_workers_there_are_by_default(
    terminal: Terminal, method: str, said: str
):
    shown = terminal("train", method, "CartPole-v1", "--help-all").out
    _, _, after = " ".join(re.sub("[│|]", " ", shown).split()).partition(" --workers INT ")
    assert said in after.partition("(default: 0)")[0]


def test_halves_of_what_one_process_steps_are_refused_in_one_sentence(terminal: Terminal):
    for words in (("train", "a2c", "CartPole-v1"), ("train", "ppo", "CartPole-v1")):
        ended = terminal(*words, "--halves=2", "--print-config")
        assert ended.code == 2
        assert "--halves 2 goes with --executors" in ended.err
    assert terminal(*words, "--halves=2", "--executors=2", "--print-config").code == 0


EVERY = ("hts", "a2c", "ppo", "impala")
CLIPPED = ("hts", "ppo")
REFUSED = [
    *((EVERY, name, "nan", "a finite number") for name in ("learning-rate", "discount")),
    (EVERY, "learning-rate", "inf", "a finite number"),
    (EVERY, "max-gradient-norm", "inf", "a finite number"),
    (EVERY, "max-gradient-norm", "-0.5", "above 0"),
    (EVERY, "value-coefficient", "nan", "a finite number"),
    (EVERY, "value-coefficient", "-0.5", "0 or more"),
    (EVERY, "entropy-coefficient", "nan", "a finite number"),
    (EVERY, "entropy-coefficient", "-0.01", "0 or more"),
    (EVERY, "final-entropy-coefficient", "inf", "a finite number"),
    (EVERY, "final-entropy-coefficient", "-0.01", "0 or more"),
    (EVERY, "renew-intervals", "-3", "0 or more"),
    (EVERY, "truncations-per-interval", "-3", "0 or more"),
    (EVERY, "evaluate-every", "-3", "0 or more"),
    (("hts", "a2c", "ppo"), "gae-lambda", "nan", "a finite number"),
    (("hts", "a2c"), "unroll", "-1", "0 or more"),
    (CLIPPED, "clip", "nan", "a finite number"),
    (CLIPPED, "clip", "inf", "a finite number"),
    (CLIPPED, "target-kl", "nan", "a finite number"),
    (CLIPPED, "target-kl", "-1.0", "0 or more"),
    (("es", "ars", "td3"), "evaluate-every", "-3", "0 or more"),
]


@pytest.mark.parametrize(
    ("method", "name", "value", "words"),
    cases(
        [(method, *case) for methods, *case in REFUSED for method in methods],
        quick=[
            (REFUSED[k][0][k % len(REFUSED[k][0])], *REFUSED[k][1:]) for k in range(len(REFUSED))
        ],
    ),
)
def test_a_number_that_cannot_be_is_refused_before_there_is_a_run(
    terminal: Terminal, method: str, name: str, value: str, words: str
):
    said = refusal(terminal, method, f"--{name}={value}")
    assert said == f"--{name} must be {words}, got {value}"


@pytest.mark.parametrize("method", EVERY)
def test_layers_without_units_are_refused(terminal: Terminal, method: str):
    said = refusal(terminal, method, "--hidden", "8", "0")
    assert said == "--hidden needs layers of 1 or more, got (8, 0)"


def refusal(terminal: Terminal, method: str, *flags: str) -> str:
    """Return the message of a refused training between the lines that frame it."""
    code, out, err = terminal("train", method, "CartPole-v1", *flags, "--out=run")
    assert (code, out) == (2, "")
    assert not Path("run").exists()
    words = " ".join(err.replace("│", " ").split())
    return words.partition("Error parsing config: ")[2].partition(" ──")[0]


def test_quiet_prints_nothing_and_no_tensorboard_leaves_its_file_out(terminal: Terminal):
    ended = terminal("train", "es", "CartPole-v1", *TINY, "--quiet", "--out=run")
    assert ended == (0, "", "")
    assert not list(Path("run").glob("*tfevents*"))
    assert json.loads(Path("run/config.json").read_text())["layout"]["pool"] == "inline"


def test_verify_answers_in_words_in_json_or_by_its_exit_code_alone(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    terminal.train("es", "CartPole-v1", "--out=other", "--seed=1")
    assert terminal("verify", "run", "run", "--quiet") == (0, "", "")
    assert terminal("verify", "run", "other", "--quiet") == (1, "", "")
    assert "differs first at update 1 in " in terminal("verify", "run", "other").out
    answer = json.loads(terminal("verify", "run", "other", "--json").out)
    assert (answer["equal"], answer["update"]) == (False, 1)
    assert answer["column"] in terminal("verify", "run", "other").out
    assert json.loads(terminal("verify", "run", "--pool=inline", "--json").out)["equal"] is True


@pytest.mark.parametrize("words", [[c, "--help"] for c in COMMANDS])
def test_help_names_the_command_and_has_no_lines_wider_than_the_terminal(
    terminal: Terminal, words: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    ended = terminal(*words)
    assert ended.code == 0
    assert ended.out.startswith(f"usage: drumline {words[0]} ")
    assert "--" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "--no-quiet" not in ended.out


def test_training_help_lists_every_method_and_shows_one_methods_flags(terminal: Terminal):
    methods = terminal("train", "--help").out
    assert all(f"\n  {name} " in methods for name in METHODS)
    assert "drumline train hts CartPole-v1 --help\n" in methods
    flags = terminal("train", "es", "HalfCheetah-v5", "--help-all").out
    assert "HalfCheetah-v5" in flags.splitlines()[0]
    for flag in ("--seed", "--workers", "--out", "--quiet", "--no-tensorboard", "--no-promise"):
        assert flag in flags
    assert "(default: 2880000)" in " ".join(flags.split())


def on_a_terminal(cwd: Path, changes: dict[str, str], *words: str) -> str:
    """Return the output of a command that writes to a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "drumline", *words],
        cwd=cwd,
        stdout=other,
        stderr=other,
        env=environ({"TERM": "xterm-256color", **changes}),
    )
    os.close(other)
    said = b""
    while True:
        try:
            said += (part := os.read(main, 65536))
        except OSError:  # what Linux says when the other end is closed
            break
        if not part:
            break
    os.close(main)
    assert process.wait() == 0, said
    return said.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "--help"],
        pytest.param(["train", "es", "CartPole-v1", *TINY, "--out=run"], marks=FAULTS),
    ],
)
def test_no_color_is_obeyed_on_a_terminal(tmp_path: Path, words: list[str]):
    assert "\x1b[" not in on_a_terminal(tmp_path, {"NO_COLOR": "1"}, *words)


def test_a_named_preset_gives_the_defaults_of_all_other_flags(terminal: Terminal):
    words = ("train", "es", "Humanoid-v5", "--print-config")
    own = json.loads(terminal(*words).out)
    for typed in (("--preset", "paper"), ("--preset=paper",)):
        ended = terminal(*words, *typed, "--seed=3")
        assert ended.code == 0, ended.err
        paper = json.loads(ended.out)
        assert (paper["population_size"], paper["generation_env_steps"]) == (10_000, 100_000)
        assert (paper["seed"], own["population_size"]) == (3, 200)
    fewer = terminal(*words, "--preset=paper", "--population-size=20")
    assert json.loads(fewer.out)["population_size"] == 20


def test_a_preset_that_is_not_there_is_refused_with_those_that_are(terminal: Terminal):
    for words, message in (
        (("es", "Humanoid-v5", "--preset=papers"), "no --preset 'papers': there is paper"),
        (("es", "CartPole-v1", "--preset=paper"), "for CartPole-v1: it has one for Humanoid-v5"),
        (("ars", "CartPole-v1", "--preset=paper"), "there is none but each environment's own"),
    ):
        ended = terminal("train", *words)
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1
        assert message in ended.err


@pytest.mark.parametrize("method", METHODS)
def test_help_is_a_page_of_ten_flags_by_topic(terminal: Terminal, method: str):
    ended = terminal("train", method, "HalfCheetah-v5", "--help")
    assert ended.code == 0
    shown = re.findall(r"^  (--[a-z-]+)", ended.out, re.MULTILINE)
    assert len(shown) in (9, 10)
    assert shown[:2] == ["--total-steps", "--seed"]
    assert {"--max-episode-steps", "--evaluate-every", "--workers", "--out"} <= set(shown)
    assert ended.out.splitlines()[-1] == (
        f"every flag: drumline train {method} HalfCheetah-v5 --help-all"
    )
    assert max(map(len, ended.out.splitlines())) <= 80
    assert len(ended.out.splitlines()) <= 45
    everything = terminal("train", method, "HalfCheetah-v5", "--help-all").out
    assert all(flag in everything for flag in shown)
    assert len(everything) > 3 * len(ended.out)


def test_help_has_the_presets_values(terminal: Terminal):
    assert re.search(
        r"--total-steps +2880000 ", terminal("train", "es", "HalfCheetah-v5", "-h").out
    )


def test_flags_of_football_are_shown_for_football_alone(terminal: Terminal):
    shown = terminal("train", "hts", "CartPole-v1", "--help-all").out
    assert "--reward " not in shown
    assert "--learning-rate" in shown
    assert "Football" not in shown
    assert "--reward " in terminal("train", "hts", "gfootball/academy_corner-v1", "--help-all").out
    config = terminal("train", "hts", "CartPole-v1", "--reward=scoring", "--print-config").out
    assert json.loads(config)["reward"] == "scoring"


def test_the_methods_page_says_when_to_choose_each(terminal: Terminal):
    said = terminal("train", "--help").out
    assert set(WHEN) == set(METHODS)
    assert "simulation is quick and you have cores" in said
