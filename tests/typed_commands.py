"""Commands as they are typed: in a process of their own, or in this one."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from drumline import cli

TESTS = Path(__file__).resolve().parent
TINY = [
    "--total-steps=60",
    "--population-size=4",
    "--noise-table-size=4096",
    "--hidden",
    "4",
    "--evaluate-episodes=2",
    "--pool=inline",
    "--no-tensorboard",
]


def environ(changes: dict[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which children can import the test doubles."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, **(changes or {})}


def drumline(*arguments: str, cwd: Path, changes: dict[str, str] | None = None):
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "drumline", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env=environ(changes),
    )


class Ended(NamedTuple):
    """End of a command: its exit code and output."""

    code: int
    out: str
    err: str


class Terminal:
    """Runs commands in this process, in a directory of their own."""

    def __init__(self, capfd: pytest.CaptureFixture[str]):
        self._capfd = capfd

    def __call__(self, *words: str) -> Ended:
        self._capfd.readouterr()
        try:
            code = cli.run(list(words))
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Ended(code, *self._capfd.readouterr())

    def line(self, text: str) -> Ended:
        """Run a line that a message told to type."""
        first, *words = shlex.split(text)
        assert first == "drumline"
        return self(*words)

    def train(self, *words: str) -> None:
        """Train a tiny run."""
        ended = self("train", *words, *TINY, "--quiet")
        assert ended.code == 0, ended.err


def said_command(text: str) -> str:
    """Return the command that the last line of a message tells to type."""
    start = text.rindex("drumline ")
    return text[start:].splitlines()[0].strip()
