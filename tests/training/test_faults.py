"""Faults of a whole run from outside: full disks, hung environments, killed drivers."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import doubles
import pytest
from campaigns import FAULTS

import drumline
from drumline import seeding
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder

TESTS = Path(__file__).resolve().parents[1]
LASTING = ("fingerprints.csv", "episodes.csv", "evaluations.csv", "policy-last.safetensors")
COUNTING = [
    "--population-size=8",
    "--std=0.1",
    "--noise-table-size=4096",
    "--hidden",
    "4",
    "--obs-stat-probability=0.5",
    "--evaluate-every=5",
    "--evaluate-episodes=2",
]
"""Flags of a run whose episodes have five steps: a generation has 40."""


class Ended(NamedTuple):
    """End of a command: its exit code and output."""

    code: int
    out: str
    errors: str


class Shell:
    """Runs commands in a directory; every process that they start carries a mark."""

    def __init__(self, place: Path):
        self.place = place
        self.mark = f"DRUMLINE_TEST={uuid.uuid4().hex}"

    def start(self, words: Sequence[str], **environ: str) -> subprocess.Popen[str]:
        name, _, value = self.mark.partition("=")
        paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        given = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", name: value, **environ}
        return subprocess.Popen(
            words,
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **given},
        )

    def run(self, words: Sequence[str], **environ: str) -> Ended:
        process = self.start(words, **environ)
        out, errors = process.communicate(timeout=120)
        return Ended(process.returncode, out, errors)

    def drumline(self, *arguments: str, **environ: str) -> Ended:
        return self.run([sys.executable, "-m", "drumline", *arguments], **environ)

    def survivors(self) -> list[int]:
        return doubles.marked(self.mark)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in a directory of its own."""
    return Shell(tmp_path)


def train(environment: str, steps: int, out: str = "run", workers: int = 2) -> list[str]:
    flags = [f"--total-steps={steps}", f"--out={out}", f"--workers={workers}"]
    return ["train", "es", f"impure_environment:{environment}", *COUNTING, *flags]


def lasting_bytes(folder: Path) -> dict[str, bytes]:
    """Everything in a run folder that wall-clock time has no part in."""
    return {name: (folder / name).read_bytes() for name in LASTING}


@FAULTS
def test_a_run_whose_files_may_not_grow_says_so_and_goes_on_later_with_the_same_bits(shell: Shell):
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); "
        "from drumline.cli import main; main(sys.argv[1:])"
    )
    frequent = "--checkpoint-minutes=0.0005"
    ended = shell.run([sys.executable, "-c", limited, *train("Counting", 6_000), frequent])
    assert_stopped_by_the_disk(ended, "File too large", shell.place / "run")
    assert shell.survivors() == []
    assert_resumes_to_the_whole_run(shell)


NAMESPACE = ["unshare", "--map-root-user", "--mount"]


@FAULTS
def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(shell: Shell):
    (shell.place / "disk").mkdir()
    if shell.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", "disk"]).code != 0:
        pytest.skip("this machine lets nobody mount a file system in a namespace")
    command = f"{sys.executable} -m drumline"
    words = " ".join(train("Counting", 6_000, "disk/run"))
    script = f"""
        mount -t tmpfs -o size=240k none disk || exit 9
        {command} {words} --checkpoint-minutes=0.0005; first=$?
        cp -r disk/run full
        {command} resume disk/run --trust-code --quiet 2>again; second=$?
        mount -o remount,size=50m disk || exit 9
        {command} resume disk/run --trust-code --quiet || exit 8
        cp -r disk/run run
        test $second = 3 && exit $first
    """
    ended = shell.run([*NAMESPACE, "sh", "-c", script])
    assert_stopped_by_the_disk(ended, "the disk is full", shell.place / "full")
    assert "the disk is full" in (shell.place / "again").read_text()
    assert shell.survivors() == []
    assert_whole(shell, shell.place / "run")


def assert_stopped_by_the_disk(ended: Ended, reason: str, folder: Path) -> None:
    assert ended.code == 3, ended.out + ended.errors
    (message,) = [line for line in ended.errors.splitlines() if line.startswith("drumline: ")]
    assert "Traceback" not in ended.errors
    assert reason in message
    assert "cannot write" in message
    assert f"run{os.sep}" in message
    last = int(message.partition("the last good checkpoint is ")[2].partition(":")[0])
    assert read_checkpoint(RunFolder.open(folder)).update == last
    assert "go on with drumline resume" in message


def assert_resumes_to_the_whole_run(shell: Shell) -> None:
    resumed = shell.drumline("resume", "run", "--trust-code", "--workers=1")
    assert resumed.code == 0, resumed.errors
    assert_whole(shell, shell.place / "run")


def assert_whole(shell: Shell, folder: Path) -> None:
    config = read_config(folder)
    whole = drumline.train(config, workers="inline", out=shell.place / "whole")
    assert lasting_bytes(folder) == lasting_bytes(whole.path)


def read_config(folder: Path) -> drumline.ES:
    return drumline.load(folder).config


def hanging_seed(generation: int, member: int) -> str:
    return str(seeding.seeds(0, member + 1, "episode", generation)[member])


def test_an_environment_that_hangs_once_costs_a_worker_and_no_bit(shell: Shell):
    once = {"HANG_SEED": hanging_seed(2, 5), "HANG_ONCE": str(shell.place / "hung")}
    ended = shell.drumline(*train("Hanging", 300), "--hang-seconds=2", **once)
    assert ended.code == 0, ended.errors
    assert (shell.place / "hung").exists()
    (line,) = [line for line in ended.out.splitlines() if "ended by a hang of 2 s" in line]
    assert "--hang-seconds" in line
    assert "member=5" in line
    assert "issued again; replaced by pid" in line
    assert shell.survivors() == []
    assert_whole(shell, shell.place / "run")


@FAULTS
def test_an_episode_that_hangs_three_times_fails_the_run_and_can_be_run_alone(shell: Shell):
    hang = {"HANG_SEED": hanging_seed(2, 5)}
    ended = shell.drumline(*train("Hanging", 300), "--hang-seconds=1", **hang)
    assert ended.code == 3, ended.errors
    causes = ", ".join(3 * ["a hang of 1 s"])
    assert f"ended its worker 3 times ({causes}); --hang-seconds sets" in ended.errors
    assert f"member 5 of generation 2 (update 3), episode seed {hang['HANG_SEED']}" in ended.errors
    assert "Traceback" not in ended.errors
    assert shell.survivors() == []

    alone = next(line for line in ended.errors.splitlines() if line.startswith("to run it alone: "))
    words = alone.removeprefix("to run it alone: ").split()
    assert words[:2] == ["drumline", "episode"]
    command = [sys.executable, "-m", *words, "--stack-seconds=0.02"]
    stuck = shell.start(command, **hang)
    assert stuck.stderr is not None
    stack = iter(stuck.stderr.readline, "")
    assert any("impure_environment.py" in line and "in step" in line for line in stack)
    stuck.send_signal(signal.SIGINT)
    stuck.communicate(timeout=30)
    assert stuck.returncode == 130

    mended = shell.run(command)
    assert mended.code == 0, mended.errors
    resumed = shell.drumline("resume", "run", "--trust-code")
    assert resumed.code == 0, resumed.errors
    rows = (shell.place / "run" / "episodes.csv").read_text().splitlines()
    (row,) = [line.split(",") for line in rows if line.startswith("3,5,")]
    assert mended.out.splitlines()[-1] == f"return {float(row[3])!r}, {row[4]} env steps"


@FAULTS
def test_a_hung_first_episode_is_named_although_it_is_a_rehearsal(shell: Shell):
    hang = {"HANG_SEED": hanging_seed(0, 0)}
    ended = shell.drumline(*train("Hanging", 300), "--hang-seconds=1", **hang)
    assert ended.code == 3, ended.errors
    assert "member 0 of generation 0 (update 1)" in ended.errors
    assert "--member 0 --checkpoint 0 --trust-code" in ended.errors


@FAULTS
def test_no_worker_outlives_a_killed_driver_and_the_run_goes_on_with_the_same_bits(shell: Shell):
    before = set(os.listdir("/dev/shm"))
    driver = shell.start([sys.executable, "-m", "drumline", *train("Counting", 20_000), "--quiet"])
    rows = shell.place / "run" / "metrics.csv"
    doubles.wait_until(lambda: rows.exists() and rows.read_text().count("\n") > 3)
    assert len(shell.survivors()) == 4  # with the guardian
    driver.kill()
    driver.communicate(timeout=30)
    doubles.wait_until(lambda: shell.survivors() == [])
    assert set(os.listdir("/dev/shm")) <= before
    assert driver.returncode == -signal.SIGKILL
    assert_resumes_to_the_whole_run(shell)
