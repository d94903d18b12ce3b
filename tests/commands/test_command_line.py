"""The command line as its users meet it: what it prints and how it exits."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import cases
from typed_commands import TINY, Terminal, drumline, environ, said_command

from drumline.api.run import load
from drumline.cli import COMMANDS
from drumline.training.evaluations import evaluation_tasks

LEARNING = ["--batch-size=8", "--replay-size=100"]
EVALUATED = [
    "--total-steps=60",
    "--hidden",
    "4",
    "--evaluate-every=1",
    "--evaluate-episodes=2",
    "--pool=inline",
    "--no-tensorboard",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which `run` is a finished run."""
    place = tmp_path_factory.mktemp("cli")
    done = drumline("train", "es", "CartPole-v1", *TINY, "--out", "run", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "95 % interval" in done.stdout
    assert "next: drumline" in done.stdout
    return place


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "did you mean train"),
        (["train", "ess", "CartPole-v1"], "did you mean es"),
        (["train", "es"], "give METHOD and ENV"),
        (["train", "es", "CartPol-v1"], "did you mean CartPole-v1"),
        (["train", "es", "CartPole-v1", "--population-size=5"], "even"),
        (["train", "es", "CartPole-v1", "--std=0"], "--std must be above 0"),
        (["train", "es", "CartPole-v1", "--noise-table-size=10"], "--noise-table-size 10"),
        (["train", "es", "CartPole-v1", "--action-bins=uniform:3"], "discrete already"),
        (["train", "es", "CartPole-v1", "--episode-cap=foo"], "--episode-cap"),
        (["train", "es", "CartPole-v1", "--policy=nothing"], "--policy"),
        (["train", "es", "CartPole-v1", "--policy=torch_policies_missing:Net"], "imported"),
        (["train", "es", "impure_environment:Raising"], "no licence file"),
        (["train", "es", "impure_environment:DictObservations"], "FlattenObservation"),
        (["train", "es", "nowhere:Thing"], "cannot be imported"),
        (["train", "es", "CartPole-v1", "--workers=-1"], "--workers"),
        (["train", "es", "CartPole-v1", "--out=run"], "drumline resume run"),
        (["train", "es", "CartPole-v1", "--out=/proc/run"], "writable folder with --out"),
        (["train", "es", "CartPole-v1", "--env=Pendulum-v1"], "contradicts CartPole-v1"),
        (["train", "es", "CartPole-v1", "more"], "es CartPole-v1 more"),
        (["train", "es", "CartPole-v1", "--policy=torch_policies:OneOutputTooMany"], "(1, 3)"),
        (["train", "es", "CartPole-v1", "--policy=torch_policies:WithoutParameters"], "no param"),
        (["train", "es", "CartPole-v1", "--policy=torch_policies:BatchNormalized"], "LayerNorm"),
        (["train", "hts", "CartPole-v1", "--network=nowhere:Net"], "cannot be imported"),
        (["train", "hts", "CartPole-v1", "--network=torch_policies:TakesNothing"], "TypeError"),
        (
            ["train", "hts", "CartPole-v1", "--network=actor_critic_networks:ForwardRaises"],
            "[2, 4]",
        ),
        (["resume", "runn"], "runn"),
        (["resume"], "give a RUN"),
        (["resume", "run", "run"], "one RUN"),
        (["evaluate", "run", "--episodes=0"], "--episodes"),
        (["evaluate", "run", "--sample", "--deterministic"], "contradict"),
        (["enjoy", "run", "--window", "--video=a.mp4"], "contradict"),
        (["enjoy", "run", "--video=a.avi"], "a.avi"),
        (["enjoy", "run", "--episodes=0"], "--episodes"),
        (["enjoy", "run", "--max-steps=0"], "--max-steps"),
        (["plot"], "at least one RUN"),
        (["plot", "run", "--out=nowhere/a.png"], "nowhere does not exist"),
        (["compare", "run", "--out=run"], "run: it is a folder"),
        (["plot", "run", "--out=a.foo"], "cannot draw a.foo: give a file that ends with .png"),
        (["compare", "run", "--out=a"], "cannot draw a: give a file that ends with .png"),
        (["train", "es", "CartPole-v1", "--start-from="], "--start-from is empty"),
        (["train", "es", "CartPole-v1", "--start-from=no.safetensors"], "cannot read the policy"),
        (["verify"], "one run to repeat"),
        (["evaluate", "run", "--policy=worst"], "worst"),
        (["plot", "run", "--x=hours"], "hours"),
        (["verify", "run", "--updates=some"], "some"),
        (["verify", "run", "--updates=0"], "--updates 0 would repeat nothing"),
        (["episode", "run", "--member=4"], "4 members"),
        (["episode", "run", "--member=2", "--evaluation"], "2 episodes"),
        (["episode", "run", "--member=-1"], "--member"),
        (["episode", "run", "--checkpoint=9"], "--checkpoint"),
        (["episode", "run", "--stack-seconds=0"], "--stack-seconds"),
        (["episode", "run", "--stack-seconds=inf"], "at most 1,000,000"),
        (["verify", "run", "--updates=²"], "--updates '²' is neither"),
        (["export", "run", "--onnx=no/e.onnx"], "no does not exist; give another --onnx"),
        (["train", "es", "CartPole-v1", "--seeds", ""], "--seeds is empty"),
        (["train", "es", "CartPole-v1", "--config="], "--config is empty"),
        (["train", "es", "CartPole-v1", "--objective", ""], "--objective is empty"),
        (["train", "es", "CartPole-v1", "--preset="], "--preset is empty"),
        (["train", "es", "CartPole-v1", "--store="], "--store is empty"),
        (["train", "es", "CartPole-v1", "--tags", "a", "--tags", "b"], "behind one --tags"),
        (["train", "es", "CartPole-v1", "--seeds=0-99999999999"], "more than 100,000 seeds"),
    ],
)
def test_wrong_use_gets_one_clear_message_and_exit_code_2(
    finished: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, arguments, said
):
    monkeypatch.chdir(finished)
    done = terminal(*arguments)
    assert done.code == 2, done.out + done.err
    assert said in done.err


def test_a_policy_file_of_another_problem_is_refused(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    terminal.train("es", "Pendulum-v1", "--out=other")
    ended = terminal("evaluate", "run", "--policy=other/policy-last.safetensors")
    assert ended.code == 2
    assert "is of Pendulum-v1, and run trained on CartPole-v1" in ended.err
    assert terminal("evaluate", "run", "--policy=run/policy-last.safetensors").code == 0


@pytest.mark.parametrize(
    "words",
    [("train", "es", "CartPole-v1", *TINY, "--out=run"), ("compare", "done", "--out=c.png")],
)
def test_commands_work_where_a_daemon_has_closed_the_output(
    terminal: Terminal, tmp_path: Path, words: tuple[str, ...]
):
    terminal.train("es", "CartPole-v1", "--out=done")
    line = shlex.join([sys.executable, "-m", "drumline", *words])
    for closed in (">&-", "2>&- >&-"):
        done = subprocess.run(
            ["bash", "-c", f"{line} {closed}"],
            cwd=tmp_path,
            env=environ(),
            stderr=subprocess.PIPE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_options_of_python_that_undo_a_restart_are_named(tmp_path: Path):
    for options, changes in (
        (["-R"], {}),
        (["-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
    ):
        done = subprocess.run(
            [sys.executable, *options, "-m", "drumline", "--version"],
            cwd=tmp_path,
            env=environ(changes),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert b"leave out Python's options -R and -X utf8=0" in done.stderr


def test_an_unknown_flag_exits_with_2_and_offers_the_nearest(terminal: Terminal):
    done = terminal("train", "es", "CartPole-v1", "--populaton-size=8")
    assert done.code == 2
    assert "--populaton-size=8" in done.err
    assert "--population-size INT" in done.err


WITHOUT_A_RUN = ("doctor", "check-env", "train", "bench", "list", "fetch")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in WITHOUT_A_RUN])
def test_a_run_of_another_format_is_refused_by_every_command(
    finished: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str
):
    monkeypatch.chdir(finished)
    place = finished / "foreign"
    place.mkdir(exist_ok=True)
    document = json.loads((finished / "run" / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**document, "format": 99, "drumline": "9.9"}))
    done = terminal(command, "foreign", *(["--onnx=a.onnx"] if command == "export" else []))
    assert done.code == 2
    assert "another version of drumline (9.9)" in done.err


def test_a_folder_that_is_not_empty_is_offered_for_resume_only_if_it_is_a_run(terminal: Terminal):
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("precious")
    done = terminal("train", "es", "CartPole-v1", *TINY, "--out=thesis")
    assert done.code == 2
    assert "not empty" in done.err
    assert "resume" not in done.err
    assert [path.name for path in Path("thesis").iterdir()] == ["chapter.tex"]


def test_no_arguments_print_usable_help_and_exit_with_2(tmp_path: Path):
    done = drumline(cwd=tmp_path)
    assert done.returncode == 2
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("NaNObservation", "the observation is NaN in"),
        ("InfiniteObservation", "the observation is inf in"),
        ("NaNReward", "the reward is nan in"),
        ("InfiniteReward", "the reward is inf in"),
    ],
)
def test_nan_and_infinity_stop_the_run_with_a_resumable_state(
    terminal: Terminal, environment: str, said: str
):
    name = f"impure_environment:{environment}"
    moments = "--obs-stat-probability=1"
    done = terminal("train", "es", name, *TINY, moments, "--out=run")
    assert done.code == 3
    step = 3 if "Observation" in environment else 2
    place = rf"{said} {name}, episode seed (\d+), step {step}"
    assert (match := re.search(place, done.err)), done.err
    assert "Traceback" not in done.err
    assert f"of generation 0 (update 1), episode seed {match[1]}" in done.err
    assert "drumline episode run --member 0 --checkpoint 0 --trust-code" in done.err
    again = terminal("resume", "run", "--trust-code", "--pool=inline")
    assert again.code == 3
    assert re.search(place, again.err)
    alone = terminal("episode", "run", "--trust-code")
    assert alone.code == 3
    assert match[0] in alone.err


@pytest.mark.parametrize("pool", cases(["--pool=inline", "--workers=1"], quick=["--pool=inline"]))
@pytest.mark.parametrize("environment", ["NaNObservation", "NaNReward"])
@pytest.mark.parametrize(
    "flags",
    [
        ["aes", *LEARNING, "--warmup-steps=10"],
        ["td3", *LEARNING, "--random-steps=10"],
        ["hts", "--num-envs=2", "--alpha=8", "--epochs=1", "--minibatches=2"],
    ],
)
def test_nan_stops_every_method_in_one_sentence(
    terminal: Terminal, environment: str, flags: list[str], pool: str
):
    method, *more = flags
    words = ["--total-steps=100", "--hidden", "4", "--no-tensorboard", "--quiet", "--out=run", pool]
    done = terminal("train", method, f"impure_environment:{environment}", *more, *words)
    assert done.code == 3, done.err
    said, *notes = done.err.splitlines()
    assert re.search(r"nan|not finite", said)
    assert notes == [] or [note[:17] for note in notes] == ["it was individual"], done.err


@pytest.mark.parametrize(
    ("flags", "stands_alone"),
    [
        (["es", "--population-size=4", "--noise-table-size=4096"], True),
        (["cem", "--population-size=4", "--elites=2"], True),
        (["td3", "--steps-per-update=20", *LEARNING, "--random-steps=10"], False),
        (["aes", "--mean-evaluations=1", *LEARNING, "--warmup-steps=10"], False),
    ],
)
def test_an_evaluation_that_fails_is_named_with_a_command_only_where_it_works(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, flags: list[str], stands_alone: bool
):
    seed = evaluation_tasks(0, 1, 2)[1].seed
    monkeypatch.setenv("COLLAPSE_SEED", str(seed))
    words = [flags[0], "impure_environment:Collapsing", *flags[1:], *EVALUATED]
    done = terminal("train", *words, "--out=run")
    assert done.code == 3, done.err
    place = f"evaluation episode 1 of update 1, episode seed {seed}"
    assert f"it was {place}" in done.err
    assert ("drumline episode" in done.err) is stands_alone
    if stands_alone:
        (said,) = (line for line in done.err.splitlines() if line.startswith("to run it alone"))
        alone = terminal.line(said_command(said))
        assert alone.code == 3, alone.err
        assert place in alone.out
        assert "the cart fell off the table" in alone.err


def test_a_run_that_names_code_needs_trust(terminal: Terminal):
    terminal.train("es", "impure_environment:Counting", "--out=own")
    refused = terminal("evaluate", "own")
    assert refused.code == 2
    assert "--trust-code" in refused.err
    assert terminal("evaluate", "own", "--trust-code").code == 0


@pytest.mark.parametrize("workers", ["--pool=inline", "--workers=2"])
def test_json_has_every_update_of_a_steady_loop_once(terminal: Terminal, workers: str):
    small = ["--max-episode-steps=15", "--concurrency=5", "--critic-batches=5", "--batch-size=8"]
    small += ["--total-steps=1500", "--warmup-steps=100", "--hidden", "6", "--evaluate-every=0"]
    small += ["--evaluate-episodes=1", "--actor-steps-scale=0.1", "--no-tensorboard"]
    done = terminal("train", "aes", "Pendulum-v1", *small, workers, "--json", "--out=run")
    assert done.code == 0, done.err
    rows = [row for row in map(json.loads, done.out.splitlines()) if row["event"] == "update"]
    made = len(Path("run/metrics.csv").read_text().splitlines()) - 1
    assert [row["update"] for row in rows if row["evaluation_mean"] is None] == [
        *range(1, made + 1)
    ]


def test_json_puts_nothing_but_objects_on_stdout(terminal: Terminal):
    done = terminal("train", "es", "CartPole-v1", *TINY, "--json", "--out=run")
    assert done.code == 0, done.err
    first, *updates, last = map(json.loads, done.out.splitlines())
    assert (first["event"], first["run"], first["seed"]) == ("start", "run", 0)
    assert {row["event"] for row in updates} == {"update"}
    assert (last["event"], last["run"]) == ("end", "run")
    ended = last["evaluation"]
    assert (ended["episodes"], len(ended["returns"])) == (2, 2)
    assert ended["mean"] == sum(ended["returns"]) / 2
    assert ended["interval"][0] <= ended["mean"] <= ended["interval"][1]
    assert ended["update"] == updates[-1]["update"]
    assert ended["env_steps"] == updates[-1]["env_steps"]


def test_a_resumed_run_says_its_end_in_json_as_well(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run")
    more = terminal("resume", "run", "--total-steps=200", "--pool=inline", "--json")
    assert more.code == 0, more.err
    rows = [json.loads(line) for line in more.out.splitlines()]
    assert [rows[0]["event"], rows[-1]["event"]] == ["start", "end"]
    assert rows[-1]["evaluation"]["env_steps"] >= 200


def test_an_evaluation_in_json_says_what_was_evaluated(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=run", "--evaluate-every=1")
    metrics = {int(row["update"]): row for row in load("run").metrics}
    for policy in ("best", "last"):
        ended = terminal("evaluate", "run", f"--policy={policy}", "--episodes=3", "--json")
        row = json.loads(ended.out)
        assert (row["run"], row["env_id"], row["method"]) == ("run", "CartPole-v1", "es")
        assert (row["policy"], row["episodes"], row["seed"]) == (policy, 3, 0)
        assert row["mean"] == pytest.approx(sum(row["returns"]) / 3)
        assert len(row["interval"]) == 2
        known = metrics.get(row["update"], {"env_steps": 0})
        assert row["env_steps"] == known["env_steps"]
    alone = json.loads(terminal("evaluate", "run", "--episodes=1", "--json").out)
    assert alone["interval"] is None


def test_plain_lines_without_a_terminal_hold_no_escape_codes(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    done = terminal("train", "es", "CartPole-v1", *TINY, "--out=run")
    assert done.code == 0
    assert done.out
    assert "\x1b" not in done.out


def test_evaluate_plot_and_verify_work_on_a_finished_run(
    finished: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(finished)
    assert "95 % interval" in terminal("evaluate", "run", "--episodes=3").out
    assert terminal("plot", "run", "--out=c.png").code == 0
    assert (finished / "c.png").read_bytes()[:4] == b"\x89PNG"
    again = terminal("verify", "run", "--workers=2")
    assert again.code == 0, again.err
    assert "equal" in again.out


def test_an_episode_of_a_learner_is_refused_in_one_sentence(terminal: Terminal):
    tiny = ["--num-envs=2", "--alpha=8", "--epochs=1", "--minibatches=2", "--hidden", "4"]
    more = ["--total-steps=16", "--evaluate-episodes=1", "--pool=inline", "--quiet", "--out=run"]
    assert terminal("train", "hts", "CartPole-v1", *tiny, *more).code == 0
    refused = terminal("episode", "run")
    assert refused.code == 2
    assert "only a search's stand alone; try drumline evaluate" in refused.err


STRATEGY = """
import numpy as np

class Walk:
    def __init__(self, start, seed):
        self.best, self.rng = start, np.random.default_rng(seed)

    def ask(self):
        return self.best + self.rng.standard_normal(self.best.size)

    def tell(self, vector, fitness):
        self.best = vector
"""


WALKS = [
    *("aes", "CartPole-v1", "--p-desired=0", "--mean-evaluations=0", "--evaluate-episodes=1"),
    *("--warmup-steps=20", "--critic-batches=1", "--batch-size=4", "--hidden", "4"),
    *("--pool=inline", "--quiet"),
]
LONGER = ["--total-steps=200", "--pool=inline", "--quiet"]


@pytest.fixture
def beside(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in the directory of the run, which are imported for this test only."""
    Path("walks.py").write_text(STRATEGY)
    Path("breaks.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(Path.cwd())
    for name in ("walks", "breaks"):
        monkeypatch.setitem(sys.modules, name, None)  # so that the import is undone at the end
        del sys.modules[name]


@pytest.mark.usefixtures("beside")
def test_a_strategy_of_ones_own_needs_trust_and_is_verified(terminal: Terminal):
    done = terminal("train", *WALKS, "--strategy=walks:Walk", "--total-steps=100", "--out=run")
    assert done.code == 0, done.err
    refused = terminal("resume", "run", *LONGER)
    assert refused.code == 2
    assert "names code to import (walks:Walk)" in refused.err
    trusted = terminal("resume", "run", "--trust-code", *LONGER)
    assert trusted.code == 0, trusted.err
    verified = terminal("verify", "run", "--trust-code", "--pool=inline")
    assert verified.code == 0, verified.out + verified.err


def test_a_strategy_of_ones_own_is_found_beside_the_run(tmp_path: Path):
    (tmp_path / "walks.py").write_text(STRATEGY)
    words = [*WALKS, "--strategy=walks:Walk", "--total-steps=60", "--out=run"]
    done = drumline("train", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


BREAKS = """
import os
import numpy as np
from walks import Walk

class Breaks(Walk):
    asked = 0

    def ask(self):
        self.asked += 1
        how = os.environ.get("BREAKS") if self.asked == 12 else None
        if how == "raises":
            raise KeyError("lost")
        return super().ask() * (np.nan if how == "nan" else 1)
"""


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", "'breaks:Breaks' asked for a vector of which"),
        ("raises", r"'breaks:Breaks' raised in ask after \d+ tells: KeyError: 'lost'"),
    ],
)
def test_a_strategy_that_fails_names_the_checkpoint_to_go_on_from(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, how: str, message: str
):
    words = ["train", *WALKS, "--strategy=breaks:Breaks", "--total-steps=600", "--seed=1"]
    words += ["--checkpoint-minutes=1e-6"]
    monkeypatch.setenv("BREAKS", how)
    broken = terminal(*words, "--out=run")
    assert broken.code == 3, broken.err
    first, *traceback, last = broken.err.splitlines()
    assert re.search(message, first)
    assert any('raise KeyError("lost")' in line for line in traceback) == (how == "raises")
    assert (number := re.search(r"checkpoint (\d+) is of a state before", last))
    assert int(number[1]) > 0
    assert Path("run/checkpoints", number[1]).exists()
    assert said_command(last) == "drumline resume run --trust-code"
    monkeypatch.delenv("BREAKS")
    mended = terminal("resume", "run", "--trust-code", "--pool=inline", "--quiet")
    assert mended.code == 0, mended.err
    assert terminal(*words, "--out=whole").code == 0
    chains = [Path(name, "fingerprints.csv").read_bytes() for name in ("run", "whole")]
    assert chains[0] == chains[1]


@pytest.mark.parametrize(("method", "repeats"), [("ppo", True), ("impala", False)])
def test_a_run_without_the_promise_is_not_to_be_verified(
    terminal: Terminal, method: str, repeats: bool
):
    small = ["--num-envs=4", "--alpha=8", "--total-steps=64", "--engine=gymnasium"]
    ended = terminal("train", method, "CartPole-v1", *small, "--evaluate-episodes=1", "--out=run")
    assert ended.code == 0, ended.err
    assert ("drumline verify" in ended.out) is repeats
    assert "next: drumline plot run" in ended.out
