"""HTS-RL's throughput on sleeping environments: predicted against measured.

Real executors and the real schedule (`sleeping.py`); a cell's prediction is the recurrence of
`theory.barriers` over the very step times that its environments drew, so no chance is left
between the two. Two constants enter it, measured once per number of environments and processes with
another seed: c, the hand-over per step (an asynchronous run with exponential times), and b, the
hand-over per version or barrier (a lock-step run). `closed_form` is claim 1, or its like for bursts
and stragglers, with the same constants; `asynchronous` is the same executors without a barrier.

    python benchmarks/throughput/hts_theory.py --out benchmarks/results/hts_theory.csv
    python benchmarks/throughput/hts_theory.py --out … --plot docs/images/hts_theory.png

Cells that the table has are not measured again.
"""

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from provenance import provenance, write_table
from sleeping import Cell, Measured, measure, step_seconds
from theory.barriers import (
    hard_barrier,
    interval_seconds,
    sliding_barrier,
    without_overlap,
)
from theory.throughput import (
    burst_barrier_slowdown,
    gamma_barrier_seconds,
    straggler_barrier_slowdown,
)

from drumline.envs.timing import Bursts, Constant, Gamma, Straggler, parse_step_time

EXPONENTIAL = "exponential:5ms"
# Bursts have a mean of 5 ms; the straggler's others take 2 ms, for its intervals to end in time.
LAWS = {
    "exponential": EXPONENTIAL,
    "constant": "constant:5ms",
    "gamma": "gamma:5ms,4",
    "bursts of 4": "bursts:2.631579ms,26.31579ms,0.1,4",
    "bursts of 64": "bursts:2.631579ms,26.31579ms,0.1,64",
    "straggler": "straggler:2ms,10",
}
CALIBRATED_WITH = 1_000
KEY = (
    *("part", "environments", "executors", "actors", "alpha", "law", "barrier"),
    *("update_milliseconds", "seed"),
)
Barrier = Literal["sliding", "hard", "none", "lag 0"]
RULES = {"hard": hard_barrier, "sliding": sliding_barrier, "lag 0": without_overlap}


@dataclass(frozen=True)
class Task:
    """One row to measure."""

    part: str
    environments: int
    alpha: int
    law: str
    barrier: Barrier
    executors: int = 2
    actors: int = 0
    update_milliseconds: float = 0.0
    long: bool = False
    """Go on for many intervals: the waits of the first ones are shorter than those to come."""

    def cell(self, seed: int) -> Cell:
        return Cell(
            self.environments,
            self.alpha,
            parse_step_time(self.law),
            self.barrier,
            self.executors,
            self.actors,
            self.update_milliseconds * 1e-3,
            seed,
        )


def grid() -> Iterator[Task]:
    """Environments × alpha × law × barrier: 2 executors whose lanes wait once for the earliest."""
    for environments in (32, 16, 8, 4):
        alphas = (1, 4, 16, 64, 128, 256) if environments >= 16 else (1, 128)
        yield Task("grid", environments, 0, EXPONENTIAL, "none")
        for alpha in alphas:
            for barrier in ("hard", "sliding"):
                long = alpha == 128 and environments >= 16
                yield Task("grid", environments, alpha, EXPONENTIAL, barrier, long=long)
    for name, environments, alphas in (
        ("constant", 32, (1, 16, 128)),
        ("gamma", 32, (1, 16, 128)),
        ("gamma", 16, (1, 16, 128)),
        ("bursts of 4", 32, (1, 4, 16, 64, 128)),
        ("bursts of 64", 32, (1, 16, 128)),
        ("straggler", 32, (1, 16, 64)),
    ):
        yield Task("grid", environments, 0, LAWS[name], "none")
        for alpha in alphas:
            for barrier in ("hard", "sliding"):
                yield Task("grid", environments, alpha, LAWS[name], barrier)


def processes() -> Iterator[Task]:
    """Return cells of the grid again, with a process for each environment."""
    for environments, alphas in ((16, (16,)), (32, (1, 16, 64))):
        make = partial(Task, "processes", environments, law=EXPONENTIAL, executors=environments)
        yield make(alpha=0, barrier="none")
        for alpha in alphas:
            yield make(alpha=alpha, barrier="hard")
            yield make(alpha=alpha, barrier="sliding")


def executors() -> Iterator[Task]:
    """Fixed environments, more and more processes; without and with actors."""
    for count in (1, 2, 4, 8):
        yield Task("executors", 32, 64, EXPONENTIAL, "sliding", executors=count)
    yield Task("executors", 32, 64, EXPONENTIAL, "sliding", executors=1, actors=1)


def learner() -> Iterator[Task]:
    """A learner that takes half an ideal interval, and one and a half; with overlap and without."""
    for share in (0.5, 1.5):
        for barrier in ("hard", "sliding", "lag 0"):
            update = share * 16 * 5.0
            yield Task("learner", 32, 16, EXPONENTIAL, barrier, update_milliseconds=update)


def many() -> Iterator[Task]:
    """Number of environments that two cores carry."""
    for count in (128, 256):
        for processes_ in (1, 2):
            yield Task("many", count, 0, EXPONENTIAL, "none", executors=processes_)
            for barrier in ("hard", "sliding"):
                yield Task("many", count, 16, EXPONENTIAL, barrier, executors=processes_)


PARTS = {
    "grid": grid,
    "processes": processes,
    "executors": executors,
    "learner": learner,
    "many": many,
}


class Constants(NamedTuple):
    """Seconds that a step and a barrier take beyond the step times."""

    step: float
    barrier: float


class Window(NamedTuple):
    """Intervals that are measured."""

    skip: int
    intervals: int

    @staticmethod
    def of(task: Task, seconds: float) -> "Window":
        if task.long:
            return Window(8, 12)
        each = task.alpha * float(step_seconds(task.cell(0), 512).mean(axis=0).max())
        fewest = 3 if task.alpha >= 64 else 6
        return Window(2, max(fewest, math.ceil(seconds / max(each, 4 * 2e-3))))


def predicted_seconds(cell: Cell, window: Window, constants: Constants) -> float:
    """From the end of interval `skip` to the end of the window's last, by the recurrence."""
    times = step_seconds(cell, (sum(window) + 1) * cell.alpha)[:, :, None]
    intervals = interval_seconds(times, cell.alpha, constants.step)
    ends = RULES[cell.barrier](intervals, cell.update_seconds, constants.barrier).finishes.max(
        axis=1
    )[:, 0]
    return float(ends[-1] - ends[window.skip])


def free_speed(cell: Cell, seconds: float, step_constant: float) -> float:
    """Env steps per second of environments that never wait, over the time that is measured."""
    begin, end = 0.1 * seconds, 1.1 * seconds
    shortest = float(step_seconds(cell, 512).mean(axis=0).min())
    times = step_seconds(cell, int(2.0 * end / shortest) + 100)
    ends = np.cumsum(times + step_constant, axis=0)
    assert ends[-1].min() > end, "too few steps were drawn"
    return float(((ends > begin) & (ends <= end)).sum()) / seconds


def closed_form_slowdown(cell: Cell) -> float | None:
    """Time over the ideal under the hard barrier, where there is a formula."""
    n, alpha, law = cell.environments, cell.alpha, cell.law
    if isinstance(law, Gamma):
        return gamma_barrier_seconds(n, alpha, order=law.shape) / alpha
    if isinstance(law, Constant):
        return 1.0
    if isinstance(law, Straggler):
        return straggler_barrier_slowdown(n, law.factor)
    if isinstance(law, Bursts):
        return burst_barrier_slowdown(
            *(n, alpha),
            burst_steps=law.length,
            fast=law.fast,
            slow=law.slow,
            slow_share=law.slow_share,
        )
    return None


def mean_step_seconds(cell: Cell) -> float:
    """Return the mean of the law, over steps and environments."""
    law = cell.law
    if isinstance(law, Gamma):
        return law.mean
    if isinstance(law, Straggler):
        return law.seconds * (cell.environments - 1 + law.factor) / cell.environments
    if isinstance(law, Bursts):
        return law.fast + (law.slow - law.fast) * law.slow_share
    return float(step_seconds(cell, 2048).mean())


class Calibration:
    """The constants of each layout, measured once."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._known: dict[tuple[int, int, int], Constants] = {}

    def __call__(self, task: Task) -> Constants:
        layout = (task.environments, task.executors, task.actors)
        if layout not in self._known:
            self._known[layout] = self._measure(task)
        return self._known[layout]

    def take(self, row: Mapping[str, str]) -> None:
        """Take over what an earlier call has measured."""
        layout = (int(row["environments"]), int(row["executors"]), int(row["actors"]))
        milliseconds = row["step_handover_milliseconds"], row["barrier_handover_milliseconds"]
        self._known[layout] = Constants(*(float(number) * 1e-3 for number in milliseconds))

    def _measure(self, task: Task) -> Constants:
        plain = replace(task, law=EXPONENTIAL, update_milliseconds=0.0, long=False)
        free = replace(plain, alpha=0, barrier="none").cell(CALIBRATED_WITH)
        done = measure(free, 0, 0, self._seconds)
        made = done.last / task.environments
        times = float(step_seconds(free, round(made)).mean())
        step = task.environments * done.seconds / done.env_steps - times
        lock_step = replace(plain, alpha=1, barrier="hard")
        cell, window = lock_step.cell(CALIBRATED_WITH), Window.of(lock_step, self._seconds)
        waited = measure(cell, *window, 0.0).seconds
        without = predicted_seconds(cell, window, Constants(step, 0.0))
        return Constants(step, max(0.0, (waited - without) / window.intervals))


def row_of(task: Task, seed: int, seconds: float, constants: Constants) -> dict[str, object]:
    cell = task.cell(seed)
    n, mean = task.environments, mean_step_seconds(cell)
    closed = None
    if task.barrier == "none":
        measured = measure(cell, 0, 0, seconds)
        bare, predicted = (free_speed(cell, seconds, c) for c in (0.0, constants.step))
    else:
        window = Window.of(task, seconds)
        measured = measure(cell, *window, seconds)
        steps = window.intervals * cell.alpha * n
        bare = steps / predicted_seconds(cell, window, Constants(0.0, 0.0))
        predicted = steps / predicted_seconds(cell, window, constants)
        slowdown = closed_form_slowdown(cell)
        if task.barrier == "hard" and slowdown is not None and not task.update_milliseconds:
            closed = n / (mean * slowdown + constants.step + constants.barrier / cell.alpha)
    return {
        "part": task.part,
        "environments": n,
        "executors": task.executors,
        "actors": task.actors,
        "alpha": task.alpha,
        "law": task.law,
        "barrier": task.barrier,
        "update_milliseconds": f"{task.update_milliseconds:g}",
        "seed": seed,
        "measured_env_steps_per_second": f"{measured.env_steps_per_second:.1f}",
        "predicted_env_steps_per_second": f"{predicted:.1f}",
        "measured_over_predicted": f"{measured.env_steps_per_second / predicted:.4f}",
        "predicted_without_constants": f"{bare:.1f}",
        "closed_form_env_steps_per_second": "" if closed is None else f"{closed:.1f}",
        "ideal_env_steps_per_second": f"{n / mean:.1f}",
        "step_handover_milliseconds": f"{constants.step * 1e3:.4f}",
        "barrier_handover_milliseconds": f"{constants.barrier * 1e3:.4f}",
        **cpu_columns(measured),
        "measured_seconds": f"{measured.seconds:.2f}",
        **provenance([seed]),
    }


def cpu_columns(measured: Measured) -> dict[str, str]:
    spent = {
        "executor": measured.executor_seconds,
        "actor": measured.actor_seconds,
        "driver": measured.driver_seconds,
    }
    return {
        f"{role}_cpu_microseconds_per_env_step": f"{seconds / measured.env_steps * 1e6:.2f}"
        for role, seconds in spent.items()
    }


def measure_all(options: Any) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = []
    if options.out.exists():
        with open(options.out, newline="") as lines:
            table = list(csv.DictReader(lines))
    calibration = Calibration(options.seconds)
    for row in table:
        calibration.take(row)
    done = {tuple(str(row[name]) for name in KEY) for row in table}
    began = time.perf_counter()
    for task in wanted(options):
        for seed in options.seeds:
            words = [str(getattr(task, name)) for name in KEY[:-2]]
            if (*words, f"{task.update_milliseconds:g}", str(seed)) in done:
                continue
            if time.perf_counter() - began > options.minutes * 60.0:
                print("out of time: call again for the rest", flush=True)
                return table
            row = row_of(task, seed, options.seconds, calibration(task))
            table.append(row)
            write_table(options.out, table)
            print(
                f"{time.perf_counter() - began:6.1f} s  {task.part} n={task.environments} "
                f"E={task.executors} A={task.actors} alpha={task.alpha} {task.law} {task.barrier}: "
                f"{row['measured_env_steps_per_second']} measured, "
                f"{row['predicted_env_steps_per_second']} predicted "
                f"({row['measured_over_predicted']}), c {row['step_handover_milliseconds']} ms, "
                f"b {row['barrier_handover_milliseconds']} ms",
                flush=True,
            )
    return table


def wanted(options: Any) -> Iterator[Task]:
    laws = {LAWS[name] for name in options.laws}
    for part in options.parts:
        for task in PARTS[part]():
            fits = task.alpha == 0 or task.alpha in options.alphas or not options.alphas
            counts = task.environments in options.envs or not options.envs
            if fits and counts and task.law in laws:
                yield task


def summary(table: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how predictions held, and what the barriers cost."""

    def speed(**wanted: object) -> float:
        words = {name: str(value) for name, value in wanted.items()}
        found = [
            float(row["measured_env_steps_per_second"])
            for row in table
            if all(str(row[name]) == word for name, word in words.items())
        ]
        return median(found) if found else math.nan

    for part, n in sorted({(str(row["part"]), int(row["environments"])) for row in table}):
        rows = [row for row in table if (row["part"], str(row["environments"])) == (part, str(n))]
        ratios = [float(row["measured_over_predicted"]) for row in rows]
        yield (
            f"{part}, {n} environments: measured / predicted {min(ratios):.3f} … "
            f"{max(ratios):.3f}, median {median(ratios):.3f}, in {len(ratios)} cells"
        )
    for n in (16, 32):
        of = partial(speed, part="grid", environments=n, law=EXPONENTIAL)
        sliding, free, hard = (of(barrier=b, alpha=a) for b, a in ALPHA_128)
        lock_step = of(barrier="hard", alpha=1)
        yield (
            f"{n} environments, exponential, alpha 128: sliding / asynchronous "
            f"{sliding / free:.3f}, hard / asynchronous {hard / free:.3f}, sliding / lock-step "
            f"{sliding / lock_step:.2f}"
        )
    for n in (16, 32):
        for barrier, alpha in (("none", 0), ("hard", 16), ("sliding", 16)):
            of = partial(speed, environments=n, law=EXPONENTIAL, barrier=barrier, alpha=alpha)
            ratio = of(part="processes") / of(part="grid")
            yield f"{n} environments, {barrier} {alpha}: a process each / two for all {ratio:.3f}"


ALPHA_128 = (("sliding", 128), ("none", 0), ("hard", 128))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plot", type=Path, help="draw the table that is there; measure nothing")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--laws", nargs="*", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--envs", type=int, nargs="*", default=[], help="default: all")
    parser.add_argument("--alphas", type=int, nargs="*", default=[], help="default: all")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--seconds", type=float, default=1.2, help="of a cell, at least")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no cell after these")
    options = parser.parse_args()
    if options.plot:
        from hts_theory_figure import draw

        with open(options.out, newline="") as lines:
            draw(list(csv.DictReader(lines)), options.plot)
        return
    print("\n".join(summary(measure_all(options))))


if __name__ == "__main__":
    main()
