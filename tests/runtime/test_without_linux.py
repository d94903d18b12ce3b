"""Runs without the calls that macOS lacks, in the driver and in its children."""

import os
import time
from pathlib import Path

import doubles
import pytest
from typed_commands import TINY, Terminal, drumline

from drumline.runtime.child_process import ChildProcess

TAKEN_AWAY = """
import os

for name in ("waitid", "waitid_result", "eventfd", "eventfd_read", "eventfd_write",
             "memfd_create", "sched_getaffinity", "posix_fallocate", "pidfd_open"):
    if hasattr(os, name):
        delattr(os, name)
"""
SMALL = [
    "--engine=gymnasium",
    "--total-steps=600",
    "--evaluate-episodes=2",
    "--hidden",
    "4",
    "--no-tensorboard",
]
WORDS = {
    "es": ["train", "es", "CartPole-v1", *TINY, "--total-steps=300"],
    "hts": ["train", "hts", "CartPole-v1", *SMALL, "--num-envs=4", "--alpha=16"],
}
PROCESSES = {
    "es": ["--pool=process", "--workers=2"],
    "hts": ["--pool=process", "--executors=2", "--actors=1"],
}
ENDING = """
import subprocess, sys

def main():
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    with open(sys.argv[1], "w") as file:
        file.write(str(subprocess.Popen(sleeping).pid))
"""


def taken_away(place: Path) -> dict[str, str]:
    """Return variables with which every interpreter lacks what macOS lacks."""
    (place / "sitecustomize.py").write_text(TAKEN_AWAY)
    inherited = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(place), inherited]))}


@pytest.mark.parametrize("method", ["es", "hts"])
def test_a_run_has_the_same_bits_without_the_calls_that_macos_lacks(
    method: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    changes = taken_away(tmp_path)
    monkeypatch.chdir(tmp_path)
    here = Terminal(capfd)(*WORDS[method], "--pool=inline", "--out=here")
    assert here.code == 0, here.err
    away = drumline(*WORDS[method], *PROCESSES[method], "--out=away", cwd=tmp_path, changes=changes)
    assert away.returncode == 0, away.stderr
    assert "replaced by" not in away.stdout + away.stderr
    for name in ("fingerprints.csv", "evaluations.csv"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "away" / name).read_bytes()


@pytest.mark.parametrize("missing", ["waitid", "none"])
def test_the_end_of_a_child_is_seen_and_ends_its_group(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, missing, raising=False)
    (tmp_path / "ends_early.py").write_text(ENDING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = ChildProcess("ends_early", [tmp_path / "pid"], ())
    assert not child.exited()
    doubles.wait_until(child.exited)
    assert child.exited()
    left = int((tmp_path / "pid").read_text())
    doubles.wait_until(lambda: not doubles.is_running(left))
    assert child.end() == "exit code 0"


def test_the_cause_of_a_death_is_known_after_its_end_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "waitid", raising=False)
    (tmp_path / "sleeps.py").write_text("import time\ndef main():\n    time.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = ChildProcess("sleeps", [], ())
    time.sleep(0.1)
    child.kill()
    doubles.wait_until(child.exited)
    assert child.end() == "SIGKILL"
