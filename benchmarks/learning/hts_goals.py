"""Learning goals of HTS-RL: env steps and wall-clock time until a score is reached and held.

A goal is met at the first scheduled evaluation of at least 20 episodes whose mean reaches it and
whose next evaluation is not below 0.9 of it. Runs that are already in the folder are read.

    python benchmarks/learning/hts_goals.py --runs RUNS --out benchmarks/results/hts_goals.csv
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from goals import evaluations, reached, wall_at
from provenance import provenance, write_table

A2C = ["--learner=a2c", "--alpha=5", "--total-steps=500000", "--evaluate-every=500"]
GOALS: dict[str, tuple[str, list[str], float, int]] = {
    "CartPole-v1 ppo": ("CartPole-v1", ["--evaluate-every=25"], 475.0, 100_000),
    "CartPole-v1 a2c": ("CartPole-v1", A2C, 475.0, 500_000),
    "HalfCheetah-v5 ppo": ("HalfCheetah-v5", ["--evaluate-every=50"], 1800.0, 1_000_000),
    "Hopper-v5 ppo": ("Hopper-v5", ["--evaluate-every=50"], 2000.0, 1_000_000),
}
"""Name → environment, flags besides the preset, goal, budget in env steps."""


def train(env: str, flags: list[str], seed: int, folder: Path, layout: list[str]) -> None:
    words = [f"--seed={seed}", *flags, "--evaluate-episodes=20", "--quiet", *layout]
    command = [sys.executable, "-m", "drumline", "train", "hts", env, *words, f"--out={folder}"]
    subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--goals", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--layout", nargs="*", default=[], help="layout flags, without dashes")
    options = parser.parse_args()
    table: list[dict[str, object]] = []
    for name in options.goals:
        env, flags, goal, budget = GOALS[name]
        for seed in options.seeds:
            folder = options.runs / f"{name.replace(' ', '-')}-s{seed}"
            if not (folder / "policy-last.safetensors").exists():
                train(env, flags, seed, folder, [f"--{word}" for word in options.layout])
            rows = evaluations(folder)
            met = reached(rows, goal)
            table.append(
                {
                    "goal": name,
                    "score": goal,
                    "budget_env_steps": budget,
                    "seed": seed,
                    "reached_env_steps": met["env_steps"] if met else "not reached",
                    "reached_wall_seconds": wall_at(folder, met["update"]) if met else "",
                    "best_mean": max(float(row["mean"]) for row in rows),
                    "final_mean": rows[-1]["mean"],
                    "flags": " ".join(flags),
                    **provenance([seed]),
                }
            )
            print(table[-1], flush=True)
            write_table(options.out, table)


if __name__ == "__main__":
    main()
