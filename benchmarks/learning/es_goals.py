"""Learning goals of OpenAI-ES and ARS: env-step budgets to reach TRPO's final score.

Budgets: Salimans et al. 2017, Table 3, Gym v1 environments; ours are the -v5 ones. ARS gets the
same scores and OpenAI-ES's budgets, which its paper reports to stay below in these environments
(Mania et al. 2018, Table 4: V1 on Swimmer, V2-t elsewhere). A goal is met at the first scheduled
evaluation of 20 episodes whose mean reaches it and whose next evaluation is not below 0.9 of it.
Runs that are already in the folder are read, stopped ones are resumed.

    python benchmarks/learning/es_goals.py --runs RUNS --out benchmarks/results/es_goals.csv
    python benchmarks/learning/es_goals.py --method ars --runs RUNS/ars --out ars_goals.csv
"""

import argparse
import csv
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from goals import evaluations, reached, wall_at


class Goal(NamedTuple):
    score: float
    budget: int
    evaluate_every: int
    total_steps: int


GOALS = {
    "es": {
        "InvertedPendulum-v5": Goal(1000.0, 455_000, 2, 455_000),
        "Swimmer-v5": Goal(128.25, 1_390_000, 5, 1_390_000),
        "HalfCheetah-v5": Goal(2385.79, 2_880_000, 10, 2_880_000),
        "InvertedDoublePendulum-v5": Goal(9104.07, 5_390_000, 20, 5_390_000),
    },
    "ars": {
        "Swimmer-v5": Goal(128.25, 1_390_000, 25, 300_000),
        "HalfCheetah-v5": Goal(2385.79, 2_880_000, 2, 1_500_000),
    },
}


def command(method: str, env: str, seed: int, folder: Path, workers: int) -> list[str]:
    goal = GOALS[method][env]
    flags = [f"--seed={seed}", f"--total-steps={goal.total_steps}"]
    flags.append(f"--evaluate-every={goal.evaluate_every}")
    shown = ["--quiet", f"--workers={workers}", f"--out={folder}"]
    return [sys.executable, "-m", "drumline", "train", method, env, *flags, *shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default="es", choices=list(GOALS))
    parser.add_argument("--envs", nargs="*", help="default: all that the method has a goal for")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--read-only", action="store_true", help="train nothing")
    options = parser.parse_args()
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    table = []
    goals = GOALS[options.method]
    for env in options.envs or goals:
        goal = goals[env]
        for seed in options.seeds:
            folder = options.runs / f"{env}-s{seed}"
            if not options.read_only and not (folder / "config.json").exists():
                words = command(options.method, env, seed, folder, options.workers)
                subprocess.run(words, check=True)
            elif not options.read_only and not (folder / "policy-last.json").exists():
                subprocess.run([sys.executable, "-m", "drumline", "resume", folder], check=True)
            if not (folder / "policy-last.json").exists():
                continue
            rows = evaluations(folder)
            met = reached(rows, goal.score)
            table.append(
                {
                    "environment": env,
                    "seed": seed,
                    "goal": goal.score,
                    "budget_env_steps": goal.budget,
                    "reached_env_steps": met["env_steps"] if met else "not reached",
                    "reached_wall_seconds": wall_at(folder, met["update"]) if met else "",
                    "final_mean": rows[-1]["mean"],
                    "evaluate_every": goal.evaluate_every,
                    "machine": f"{platform.machine()} 2 cores, shared",
                    "commit": head.stdout.strip(),
                    "command": " ".join(
                        ["drumline", *command(options.method, env, seed, folder, 1)[3:9]]
                    ),
                }
            )
    if not table:
        sys.exit("no finished run to read")
    with open(options.out, "w", newline="") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    print(options.out.read_text())


if __name__ == "__main__":
    main()
