"""Learning goals: train to each, resumably, and note when it was met.

A goal is met at the first scheduled evaluation whose mean reaches it and whose next evaluation is
not below 0.9 of it (1.1 of it, where it is negative). A score that is first met at the run's end is
confirmed by one more evaluation of the last policy, with other episodes. Runs that are already in
the folder are read, stopped ones go on, and those of other settings are refused.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table
from run_folders import DRUMLINE, bring_to_end


@dataclass(frozen=True)
class Goal:
    """A score to be learned, and the budget for it."""

    method: str
    env: str
    score: float | None
    """None: what counts is where the budget ends."""
    budget: int
    """In env steps."""
    flags: tuple[str, ...] = ()
    """Besides the preset."""
    training: str = ""
    """A column of metrics.csv that is to reach the score, instead of the evaluations' mean."""


def evaluations(folder: Path) -> list[dict[str, str]]:
    with open(folder / "evaluations.csv", newline="") as lines:
        return list(csv.DictReader(lines))


def in_training(folder: Path, column: str) -> list[dict[str, str]]:
    """Return metrics.csv with a mean over 100 episodes as `mean`, as soon as there are so many."""
    with open(folder / "metrics.csv", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if int(row["episodes"]) >= 100]
    # A run of an earlier commit that pays goals alone has the score as its return.
    return [{**row, "mean": row.get(column, row["episode_return_mean"])} for row in rows]


def reached(rows: list[dict[str, str]], goal: float) -> dict[str, str] | None:
    """Return the first row that reaches the goal and whose next is short of it by 0.1 at most."""
    least = goal - 0.1 * abs(goal)
    for row, following in pairwise(rows):
        if float(row["mean"]) >= goal and float(following["mean"]) >= least:
            return row
    return None


def confirming(
    folder: Path,
    drumline: Sequence[str] = DRUMLINE,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Return the mean of one more evaluation of the last policy, with episodes of its own."""
    config = json.loads((folder / "config.json").read_text())["config"]
    words = ["evaluate", str(folder), "--policy=last", "--seed=1", "--json", "--trust-code"]
    words.append(f"--episodes={config['evaluate_episodes']}")
    done = subprocess.run([*drumline, *words], check=True, stdout=subprocess.PIPE, env=environment)
    return fmean(json.loads(done.stdout)["returns"])


def met_at(folder: Path, goal: Goal) -> dict[str, str] | None:
    """Return the row of a finished run at which its goal was met."""
    if goal.score is None:
        return None
    if goal.training:
        return reached(in_training(folder, goal.training), goal.score)
    rows = evaluations(folder)
    met = reached(rows, goal.score)
    if met is None and float(rows[-1]["mean"]) >= goal.score:
        met = reached([rows[-1], {"mean": str(confirming(folder))}], goal.score)
    return met


def wall_at(folder: Path, update: str) -> str:
    """Return the wall-clock seconds of an update, or nothing if it is not there."""
    with open(folder / "metrics.csv", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["update"] == update:
                return f"{float(row['wall_seconds']):.0f}"
    return ""


def main(goals: Mapping[str, Goal], description: str | None) -> None:
    """Carry out what the command line asks for of `goals`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--goals", nargs="*", default=list(goals), choices=list(goals))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--layout", nargs="*", default=[], help="layout flags, without dashes")
    parser.add_argument("--keep", action="store_true", help="keep the other rows of --out")
    options = parser.parse_args()
    asked = {(name, str(seed)) for name in options.goals for seed in options.seeds}
    table: list[Mapping[str, object]] = []
    if options.keep and options.out.exists():
        with open(options.out, newline="") as lines:
            rows = list(csv.DictReader(lines))
        table = [row for row in rows if (row["goal"], row["seed"]) not in asked]
    for name in options.goals:
        for seed in options.seeds:
            folder = options.runs / f"{name.replace(' ', '-')}-s{seed}"
            goal = goals[name]
            flags = [f"--seed={seed}", *goal.flags]
            layout = [f"--{word}" for word in options.layout]
            bring_to_end(folder, goal.method, goal.env, flags, layout)
            table.append(_row(name, goal, seed, folder))
            print(table[-1], flush=True)
            write_table(options.out, table)


def _row(name: str, goal: Goal, seed: int, folder: Path) -> dict[str, object]:
    rows = in_training(folder, goal.training) if goal.training else evaluations(folder)
    met = met_at(folder, goal)
    missed = "" if goal.score is None else "not reached"
    return {
        "goal": name,
        "method": goal.method,
        "env": goal.env,
        "seed": seed,
        "score": "" if goal.score is None else goal.score,
        "budget_env_steps": goal.budget,
        "reached_env_steps": met["env_steps"] if met else missed,
        "reached_wall_seconds": wall_at(folder, met["update"]) if met else "",
        "best_mean": max(float(row["mean"]) for row in rows),
        "final_mean": rows[-1]["mean"],
        "flags": " ".join(goal.flags),
        **provenance([seed]),
    }
