"""Learning goals of HTS-RL: env steps and wall-clock time until a score is reached and held.

A goal is met at the first scheduled evaluation of at least 20 episodes whose mean reaches it and
whose next evaluation is not below 0.9 of it. Runs that are already in the folder are read.

Football's goal is an average score, not a reward, and the paper's three methods run for it.

    python benchmarks/learning/hts_goals.py --runs RUNS --out benchmarks/results/hts_goals.csv
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from goals import evaluations, reached, wall_at
from provenance import provenance, write_table

A2C = ["--learner=a2c", "--alpha=5", "--total-steps=500000", "--evaluate-every=500"]
FOOTBALL = "gfootball/academy_empty_goal_close-v1"


class Goal(NamedTuple):
    """What is to be learned, and by when."""

    env: str
    flags: list[str]
    """Besides the preset."""
    score: float
    budget: int
    """In env steps."""
    method: str = "hts"
    episodes: int = 20
    """Of each evaluation."""


def football(method: str, every: int) -> Goal:
    flags = ["--total-steps=500000", f"--evaluate-every={every}"]
    return Goal(FOOTBALL, flags, 0.8, 500_000, method)


GOALS = {
    "CartPole-v1 ppo": Goal("CartPole-v1", ["--evaluate-every=25"], 475.0, 100_000),
    "CartPole-v1 a2c": Goal("CartPole-v1", A2C, 475.0, 500_000),
    "HalfCheetah-v5 ppo": Goal("HalfCheetah-v5", ["--evaluate-every=50"], 1800.0, 1_000_000),
    "Hopper-v5 ppo": Goal("Hopper-v5", ["--evaluate-every=50"], 2000.0, 1_000_000),
    "Pong-v5 ppo": Goal(
        "Pong-v5", ["--total-steps=3000000", "--evaluate-every=100"], 18.0, 3_000_000, episodes=5
    ),
    "football empty goal close hts": football("hts", 10),
    "football empty goal close ppo": football("ppo", 10),
    "football empty goal close impala": football("impala", 64),
}


def start(goal: Goal, seed: int, folder: Path, layout: list[str]) -> None:
    """Train, or go on where a run was stopped."""
    drumline = [sys.executable, "-m", "drumline"]
    if (folder / "config.json").exists():
        command = [*drumline, "resume", str(folder)]
    else:
        words = [f"--seed={seed}", *goal.flags, f"--evaluate-episodes={goal.episodes}"]
        command = [*drumline, "train", goal.method, goal.env, *words, f"--out={folder}"]
    subprocess.run([*command, "--quiet", *layout], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--goals", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--keep", action="store_true", help="the rows of other goals in --out")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--layout", nargs="*", default=[], help="layout flags, without dashes")
    options = parser.parse_args()
    table: list[dict[str, object]] = []
    if options.keep and options.out.exists():
        with open(options.out, newline="") as lines:
            table = [row for row in csv.DictReader(lines) if row["goal"] not in options.goals]
    for name in options.goals:
        goal = GOALS[name]
        for seed in options.seeds:
            folder = options.runs / f"{name.replace(' ', '-')}-s{seed}"
            if not (folder / "policy-last.safetensors").exists():
                start(goal, seed, folder, [f"--{word}" for word in options.layout])
            rows = evaluations(folder)
            met = reached(rows, goal.score)
            table.append(
                {
                    "goal": name,
                    "score": goal.score,
                    "budget_env_steps": goal.budget,
                    "seed": seed,
                    "reached_env_steps": met["env_steps"] if met else "not reached",
                    "reached_wall_seconds": wall_at(folder, met["update"]) if met else "",
                    "best_mean": max(float(row["mean"]) for row in rows),
                    "final_mean": rows[-1]["mean"],
                    "flags": " ".join(goal.flags),
                    **provenance([seed]),
                }
            )
            print(table[-1], flush=True)
            write_table(options.out, table)


if __name__ == "__main__":
    main()
