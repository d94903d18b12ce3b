"""`make smoke`: is Drumline installed, and does it work? Half a minute on two idle cores.

Three methods train for some updates; one of them is killed and resumed; a run is repeated on
another layout and compared bit for bit.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SMALL = ("--hidden", "8", "--evaluate-episodes", "2", "--no-tensorboard", "--quiet")
TRAININGS: dict[str, Sequence[str]] = {
    "es": (
        *("es", "CartPole-v1", "--total-steps", "6000", "--population-size", "8"),
        *("--noise-table-size", "65536", "--workers", "2"),
    ),
    "hts": ("hts", "CartPole-v1", "--total-steps", "2048", "--executors", "1"),
    "td3": (
        *("td3", "Pendulum-v1", "--total-steps", "1000", "--random-steps", "500"),
        *("--steps-per-update", "250", "--replay-size", "1000", "--workers", "1"),
    ),
}
_UPDATES_BEFORE_THE_KILL = 3
_PATIENCE = 120.0


class SmokeFailed(Exception):
    """A step did not end as it should."""


def main(place: Path) -> None:
    """Make every step in `place`, with a line for each; raise SmokeFailed at the first fault."""
    began = time.perf_counter()
    steps = {
        "es: trained, killed with SIGKILL": lambda: kill(place),
        "es: resumed": lambda: drumline(place, "resume", "es", "--quiet"),
        "es: repeated on 3 workers, the same bits": lambda: drumline(
            place, "verify", "es", "--updates", "5", "--workers", "3"
        ),
        "hts: trained": lambda: train(place, "hts"),
        "td3: trained": lambda: train(place, "td3"),
        "es: evaluated": lambda: drumline(place, "evaluate", "es", "--episodes", "2"),
    }
    for words, step in steps.items():
        before = time.perf_counter()
        step()
        print(f"{words:<44}{time.perf_counter() - before:>6.1f} s", flush=True)
    print(f"installed and works: {time.perf_counter() - began:.0f} s")


def drumline(place: Path, *words: str) -> None:
    """Run a command in `place`; SmokeFailed with its output unless it ends with 0."""
    done = subprocess.run(
        [sys.executable, "-m", "drumline", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"
        raise SmokeFailed(f"drumline {' '.join(words)} ended with {done.returncode}:\n{said}")


def train(place: Path, name: str) -> None:
    """Train a method into a run folder of its name."""
    drumline(place, "train", *TRAININGS[name], *SMALL, "--out", name)


def kill(place: Path) -> None:
    """Train es with a checkpoint after every update, and kill it after some."""
    words = ("train", *TRAININGS["es"], *SMALL, "--checkpoint-minutes", "0.0001", "--out", "es")
    training = subprocess.Popen([sys.executable, "-m", "drumline", *words], cwd=place)
    rows, until = place / "es" / "metrics.csv", time.perf_counter() + _PATIENCE
    while not (rows.exists() and len(rows.read_bytes().splitlines()) > _UPDATES_BEFORE_THE_KILL):
        if training.poll() is not None or time.perf_counter() > until:
            training.kill()
            training.wait()
            raise SmokeFailed(f"drumline {' '.join(words)} made no {_UPDATES_BEFORE_THE_KILL} rows")
        time.sleep(0.02)
    os.kill(training.pid, signal.SIGKILL)
    training.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        try:
            main(Path(folder))
        except SmokeFailed as failed:
            sys.exit(f"make smoke: {failed}")
