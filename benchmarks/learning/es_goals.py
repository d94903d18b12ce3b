"""Learning goals of OpenAI-ES: the published env-step budgets to reach TRPO's final score.

Budgets: Salimans et al. 2017, Table 3, Gym v1 environments; ours are the -v5 ones. A goal is met at
the first scheduled evaluation of 20 episodes whose mean reaches it and whose next evaluation is
not below 0.9 of it. Runs that are already in the folder are read, stopped ones are resumed.

    python benchmarks/learning/es_goals.py --runs RUNS --out benchmarks/results/es_goals.csv
"""

import argparse
import csv
import platform
import subprocess
import sys
from pathlib import Path

from goals import evaluations, reached, wall_at

GOALS = {
    "InvertedPendulum-v5": (1000.0, 455_000, 2),
    "Swimmer-v5": (128.25, 1_390_000, 5),
    "HalfCheetah-v5": (2385.79, 2_880_000, 10),
    "InvertedDoublePendulum-v5": (9104.07, 5_390_000, 20),
}


def command(env: str, seed: int, folder: Path, workers: int) -> list[str]:
    _, budget, every = GOALS[env]
    flags = [f"--seed={seed}", f"--total-steps={budget}", f"--evaluate-every={every}"]
    shown = ["--quiet", f"--workers={workers}", f"--out={folder}"]
    return [sys.executable, "-m", "drumline", "train", "es", env, *flags, *shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--envs", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--read-only", action="store_true", help="train nothing")
    options = parser.parse_args()
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    table = []
    for env in options.envs:
        goal, budget, every = GOALS[env]
        for seed in options.seeds:
            folder = options.runs / f"{env}-s{seed}"
            if not options.read_only and not (folder / "config.json").exists():
                subprocess.run(command(env, seed, folder, options.workers), check=True)
            elif not options.read_only and not (folder / "policy-last.json").exists():
                subprocess.run([sys.executable, "-m", "drumline", "resume", folder], check=True)
            if not (folder / "policy-last.json").exists():
                continue
            rows = evaluations(folder)
            met = reached(rows, goal)
            table.append(
                {
                    "environment": env,
                    "seed": seed,
                    "goal": goal,
                    "budget_env_steps": budget,
                    "reached_env_steps": met["env_steps"] if met else "not reached",
                    "reached_wall_seconds": wall_at(folder, met["update"]) if met else "",
                    "final_mean": rows[-1]["mean"],
                    "evaluate_every": every,
                    "machine": f"{platform.machine()} 2 cores, shared",
                    "commit": head.stdout.strip(),
                    "command": " ".join(["drumline", *command(env, seed, folder, 1)[3:9]]),
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
