"""The command line as its users meet it: what it prints and how it exits."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drumline.cli import COMMANDS

TINY = [
    "--total-steps=60",
    "--population-size=4",
    "--noise-table-size=4096",
    "--hidden",
    "4",
    "--evaluate-episodes=2",
    "--pool=inline",
]
HERE = Path(__file__).resolve().parents[1]


def drumline(*arguments: str, cwd: Path, environ: dict[str, str] | None = None):
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "drumline", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths, **(environ or {})},
    )


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
        (["train", "es", "CartPole-v1", "--out=run"], "run"),
        (["resume", "runn"], "runn"),
        (["evaluate", "run", "--policy=worst"], "worst"),
        (["plot", "run", "--x=hours"], "hours"),
        (["verify", "run", "--updates=some"], "some"),
        (["episode", "run", "--member=4"], "4 members"),
        (["episode", "run", "--member=2", "--evaluation"], "2 episodes"),
        (["episode", "run", "--member=-1"], "--member"),
        (["episode", "run", "--checkpoint=9"], "--checkpoint"),
        (["episode", "run", "--stack-seconds=0"], "--stack-seconds"),
    ],
)
def test_wrong_use_gets_one_clear_message_and_exit_code_2(finished: Path, arguments, said):
    done = drumline(*arguments, cwd=finished)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_flag_exits_with_2_and_shows_it(finished: Path):
    done = drumline("train", "es", "CartPole-v1", "--populaton-size=8", cwd=finished)
    assert done.returncode == 2
    assert "populaton" in done.stderr + done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(tmp_path: Path, command: str):
    done = drumline(command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--" in done.stdout


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
    tmp_path: Path, environment: str, said: str
):
    name = f"impure_environment:{environment}"
    moments = "--obs-stat-probability=1"
    done = drumline("train", "es", name, *TINY, moments, "--out=run", cwd=tmp_path)
    assert done.returncode == 3
    step = 3 if "Observation" in environment else 2
    place = rf"{said} {name}, episode seed (\d+), step {step}"
    assert (match := re.search(place, done.stderr)), done.stderr
    assert f"of generation 0 (update 1), episode seed {match[1]}" in done.stderr
    assert "drumline episode run --member 0 --checkpoint 0 --trust-code" in done.stderr
    again = drumline("resume", "run", "--trust-code", "--pool=inline", cwd=tmp_path)
    assert again.returncode == 3
    assert re.search(place, again.stderr)
    alone = drumline("episode", "run", "--trust-code", cwd=tmp_path)
    assert alone.returncode == 3
    assert match[0] in alone.stderr


def test_a_damaged_checkpoint_is_refused_and_nothing_is_lost(finished: Path):
    drumline("train", "es", "CartPole-v1", *TINY, "--out=damaged", cwd=finished)
    checkpoints = (finished / "damaged" / "checkpoints").iterdir()
    newest = max(checkpoints, key=lambda place: int(place.name))
    tensors = next(newest.glob("*.safetensors"))
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    rows = (finished / "damaged" / "metrics.csv").read_bytes()
    done = drumline("resume", "damaged", cwd=finished)
    assert done.returncode == 2
    assert "--checkpoint" in done.stderr
    assert (finished / "damaged" / "metrics.csv").read_bytes() == rows


def test_a_run_that_names_code_needs_trust(finished: Path):
    done = drumline("train", "es", "impure_environment:Counting", *TINY, "--out=own", cwd=finished)
    assert done.returncode == 0, done.stderr
    refused = drumline("evaluate", "own", cwd=finished)
    assert refused.returncode == 2
    assert "--trust-code" in refused.stderr
    assert drumline("evaluate", "own", "--trust-code", cwd=finished).returncode == 0


def test_json_puts_nothing_but_objects_on_stdout(tmp_path: Path):
    done = drumline("train", "es", "CartPole-v1", *TINY, "--json", "--out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(isinstance(json.loads(line), dict) for line in done.stdout.splitlines())


def test_plain_lines_without_a_terminal_hold_no_escape_codes(tmp_path: Path):
    done = drumline(
        "train", "es", "CartPole-v1", *TINY, "--out=run", cwd=tmp_path, environ={"NO_COLOR": "1"}
    )
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_evaluate_plot_and_verify_work_on_a_finished_run(finished: Path):
    assert "95 % interval" in drumline("evaluate", "run", "--episodes=3", cwd=finished).stdout
    assert drumline("plot", "run", "--out=c.png", cwd=finished).returncode == 0
    assert (finished / "c.png").read_bytes()[:4] == b"\x89PNG"
    again = drumline("verify", "run", "--workers=2", cwd=finished)
    assert again.returncode == 0, again.stderr
    assert "equal" in again.stdout
