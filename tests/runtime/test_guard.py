"""An environment that the driver steps never ends the driver without a word."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from typed_commands import environ

from drumline.runtime.guard import Guard

ENDINGS = {
    "exit": (3, r"after step \d+, has called os._exit\(0\)"),
    "native exit": (3, r"after step \d+, has called exit\(\) in native code"),
    "native _exit": (9, r"after step \d+, has ended the process"),
    "native exit, locked": (3, r"after step \d+, has called exit\(\) in native code"),
    "crash": (-11, r"after step \d+, has ended the process"),
    "hang": (-6, r"after step \d+, has hung for \d+ s \(--hang-seconds 1\)"),
}
SMALL = ["--hidden", "4", "--evaluate-every=0", "--evaluate-episodes=2", "--quiet", "--seed=7"]
STREAM = ["--steps-per-update=20", "--random-steps=20", "--batch-size=4", "--total-steps=80"]
NO = "--no-promise"  # so that no rehearsal comes first
RUNS = {
    "td3": (
        ["td3", *STREAM, NO],
        33,
        r"EndsItsProcess, training episode 6, seed \d+, after step 2,",
    ),
    "rehearsal": (["td3", *STREAM], 24, r"EndsItsProcess, training episode 0, seed \d+, after st"),
    "pool": (
        ["es", "--pool=inline", "--population-size=4", NO, "--total-steps=200"],
        33,
        r"EndsItsProcess, Evaluate\(.*seed=\d+.*, after step 2,",
    ),
    "crew": (
        ["ppo", NO, "--num-envs=2", "--alpha=8", "--minibatches=1", "--total-steps=160"],
        33,
        r"environment \d of impure_environment:EndsItsProcess, .*--seed 7 or later, after step \d+",
    ),
}


def typed(words: list[str], tmp_path: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "drumline", *words],
        cwd=tmp_path,
        env={**environ(), **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("run", "ending"),
    cases(
        [
            ("td3", "exit"),
            ("td3", "crash"),
            ("td3", "hang"),
            ("td3", "native exit"),
            ("td3", "native _exit"),
            ("td3", "native exit, locked"),
            ("rehearsal", "native exit"),
            ("rehearsal", "exit"),
            ("pool", "exit"),
            ("crew", "crash"),
        ],
        quick=[("td3", "exit"), ("crew", "crash")],
    ),
)
def test_an_environment_that_ends_the_driver_is_named_with_seed_and_step(
    tmp_path: Path, run: str, ending: str
):
    (method, *flags), at, where = RUNS[run]
    code, words = ENDINGS[ending]
    train = ["train", method, "impure_environment:EndsItsProcess", *flags, *SMALL, "--out=run"]
    limit = ["--hang-seconds=1"] if ending == "hang" else []
    ended = typed([*train, *limit], tmp_path, ENDS_AT=str(at), ENDS_BY=ending)
    assert ended.returncode == code, ended.stderr
    assert re.search(where, ended.stderr), ended.stderr
    assert re.search(words, ended.stderr), ended.stderr


ROTATION = ["--num-envs=4", "--alpha=8", "--minibatches=1", "--epochs=1", "--total-steps=64"]
BEGINS = {
    "td3": ["td3", *STREAM],
    "es": ["es", "--pool=inline", "--population-size=4", "--total-steps=40"],
    "ppo": ["ppo", *ROTATION],
    "hts": ["hts", *ROTATION, "--executors=2"],
    "aes": ["aes", *STREAM[2:], "--warmup-steps=20", "--pool=inline", "--mean-evaluations=0"],
}


@pytest.mark.parametrize("name", cases(BEGINS, quick=["td3", "ppo"]))
def test_a_first_reset_and_step_in_the_driver_have_the_time_of_a_creation(
    tmp_path: Path, name: str
):
    method, *flags = BEGINS[name]
    limits = ["--hang-seconds=0.5", "--creation-seconds=60"]
    train = ["train", method, "impure_environment:Compiling", *flags, *SMALL, *limits, "--out=run"]
    ended = typed(train, tmp_path, COMPILE_SECONDS="0.8")
    assert ended.returncode == 0, ended.stderr


def test_a_first_step_that_never_ends_is_told_from_a_hang_of_a_later_one(tmp_path: Path):
    method, *flags = BEGINS["td3"]
    limits = ["--hang-seconds=0.3", "--creation-seconds=1"]
    train = ["train", method, "impure_environment:Compiling", *flags, *SMALL, *limits, "--out=run"]
    ended = typed(train, tmp_path, COMPILE_SECONDS="600")
    assert ended.returncode == -6, ended.stderr
    said = r"Compiling, training episode 0, seed \d+, after step 0, has hung for 1 s \(--creation-s"
    assert re.search(said, ended.stderr), ended.stderr


@pytest.mark.parametrize("call", ["RESET", "STEP"])
@pytest.mark.parametrize("name", ["ppo", "hts"])
def test_environments_that_are_slow_together_are_no_hang(tmp_path: Path, name: str, call: str):
    """Four calls of one step take longer than the limit of each."""
    method, *flags = BEGINS[name]
    flags = [flag for flag in flags if not flag.startswith("--executors")]
    more = ["--executors=1"] if name == "hts" else []
    train = ["train", method, "impure_environment:SlowResets", *flags, *more, *SMALL, "--out=run"]
    short = ["--hang-seconds=0.8", "--total-steps=32"]
    ended = typed([*train, *short], tmp_path, **{f"{call}_SECONDS": "0.3"})
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("seconds", ["inf", "1e12"])
def test_a_limit_that_no_hang_reaches_is_taken(tmp_path: Path, seconds: str):
    flags = [*ROTATION, *SMALL, "--executors=2", "--out=run", f"--hang-seconds={seconds}"]
    ended = typed(["train", "hts", "impure_environment:Counting", *flags], tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_a_run_that_ends_well_says_nothing_and_leaves_no_process(tmp_path: Path):
    (method, *flags), _, _ = RUNS["td3"]
    train = ["train", method, "impure_environment:EndsItsProcess", *flags, *SMALL, "--out=run"]
    ended = typed(train, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    evaluated = typed(
        ["evaluate", "run", "--trust-code", "--episodes=4"], tmp_path, ENDS_AT="7", ENDS_BY="exit"
    )
    assert evaluated.returncode == 3
    assert re.search(r"EndsItsProcess, episode 1, seed \d+, after step 1, has", evaluated.stderr)


def test_a_step_costs_a_store_and_closing_ends_the_guardian():
    real = os._exit
    guard: Any = Guard(60.0)
    guard.enter("somewhere")
    begin = time.thread_time()
    for step in range(10_000):
        guard.step[0] = step
    assert (time.thread_time() - begin) / 10_000 < 5e-6
    guard.close()
    assert guard._process.returncode == 0
    assert os._exit is real


@pytest.mark.parametrize("ending", ["", "guard.close()", "os.fork() or libc.exit(7)"])
def test_a_process_that_ends_well_beside_a_guard_keeps_its_code(ending: str):
    """A guard left open, one that was closed, and a child process that native code ends."""
    script = (
        "import ctypes, os, sys\n"
        "from drumline.runtime.guard import Guard\n"
        "libc = ctypes.CDLL(None)\n"
        "for _ in range(3):\n"
        "    Guard(60.0).close()\n"
        "guard = Guard(60.0)\n"
        "guard.enter('somewhere')\n"
        f"{ending}\n"
        "code = 5 if 'fork' not in sys.argv[1] else os.waitstatus_to_exitcode(os.wait()[1])\n"
        "guard.leave()\n"
        "sys.exit(code)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == (7 if "fork" in ending else 5), ended.stderr
    assert ended.stderr == ""


def test_a_breakpoint_is_no_hang(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "breakpointhook", lambda: time.sleep(1.5))
    with Guard(0.4) as guard:
        guard.enter("somewhere")
        breakpoint()  # noqa: T100 - what a user does in an environment
        guard.again()
        assert guard._process.poll() is None


def test_a_forked_child_that_lives_on_holds_up_no_close():
    """It has the guardian's pipe, too: its end alone would not tell the guardian."""
    code = (
        "import os, time\n"
        "from drumline.runtime.guard import Guard\n"
        "guard = Guard(60.0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "guard.close()\n"
        "os.kill(child, 9)\n"
        "os.waitpid(child, 0)\n"
        "print('closed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=50, check=False, env=environ(),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\n", "")
