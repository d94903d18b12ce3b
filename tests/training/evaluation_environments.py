"""Training that waits for the episodes of an evaluation, which must go on beside it."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from doubles import first
from impure_environment import Counting

_PATIENCE = 50.0  # less than the limit of a hang


def watched() -> tuple[Path, set[int], int]:
    """Return the file of marks, the seeds of the evaluation, and the step that waits for it."""
    marks, seeds, step = os.environ["AWAITED"].split(":")
    return Path(marks), set(map(int, seeds.split(","))), int(step)


def mark(path: Path, word: str) -> None:
    """Write a line, in one call: other processes write there too."""
    with path.open("a") as file:
        file.write(f"{word}\n")


def marked(path: Path, word: str) -> int:
    """Return the number of lines with a word."""
    return path.read_text().split().count(word) if path.exists() else 0


def await_evaluation() -> None:
    """Wait for the end of every episode of the evaluation."""
    marks, seeds, _ = watched()
    deadline = time.perf_counter() + _PATIENCE
    while marked(marks, "evaluated") < len(seeds):
        if time.perf_counter() > deadline:
            raise TimeoutError(f"the evaluation has stood still for {_PATIENCE:g} s")
        time.sleep(0.002)


class Awaited(Counting):
    """Waits for the evaluation at its n-th step; kills itself once, in the evaluation."""

    stepped = 0

    def reset(self, *, seed=None, options=None):
        self.evaluated = "AWAITED" in os.environ and seed in watched()[1]
        return super().reset(seed=seed)

    def step(self, action):
        self.stepped += 1
        if self.evaluated and self.steps == 2 and first(watched()[0].with_name("killed")):
            os.kill(os.getpid(), signal.SIGKILL)
        if "AWAITED" in os.environ and not self.evaluated and self.stepped == watched()[2]:
            await_evaluation()
        result = super().step(action)
        if self.evaluated and result[2]:
            mark(watched()[0], "evaluated")
        return result


def awaited_value(parameters: np.ndarray, seed: int) -> float:
    """−‖θ‖²; the n-th call of training, and every later one, waits for the evaluation."""
    if "AWAITED" in os.environ:
        marks, seeds, call = watched()
        mark(marks, "evaluated" if seed in seeds else "trained")
        if seed not in seeds and marked(marks, "trained") >= call:
            await_evaluation()
    return -float(np.square(parameters).sum())
