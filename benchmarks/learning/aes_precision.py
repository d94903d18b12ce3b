"""Whether AES-RL learns as well in bf16 as in fp32: both at equal env steps, summed up over seeds.

Runs that are already in the folder are read and stopped ones go on. A row is a run's latest
evaluation when a budget is spent; the summary beside it takes fp32 for the peer, with its goals.

    python benchmarks/learning/aes_precision.py --runs RUNS --out aes_precision.csv
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goals import evaluations, wall_at
from peer_summary import summary
from peers import read_table
from provenance import provenance, write_table
from run_folders import bring_to_end

STEPS = 30_000
BUDGETS = (STEPS // 3, 2 * STEPS // 3, STEPS)
CASES = {
    "Pendulum-v1": (f"--total-steps={STEPS}",),
    "Hopper-v5": ("--preset=paper", f"--total-steps={STEPS}", "--warmup-steps=2000"),
}
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--precisions", nargs="*", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    table = read_table(options.out)
    for env in options.cases:
        for seed in options.seeds:
            for precision in options.precisions:
                folder = options.runs / f"{env}-{precision}-s{seed}"
                flags = [f"--seed={seed}", f"--precision={precision}", *CASES[env]]
                bring_to_end(folder, "aes", env, flags, [])
                run = (env, precision, str(seed))
                table = [row for row in table if (row["case"], row["who"], row["seed"]) != run]
                rows = list(_rows(folder, *run))
                table += rows
                print(*run, [row["return_mean"] for row in rows], flush=True)
                write_table(options.out, table)
    if sums := summary(table, "fp32"):
        write_table(options.out.with_stem(f"{options.out.stem}_summary"), sums)


def _rows(folder: Path, env: str, precision: str, seed: str) -> Iterator[dict[str, Any]]:
    made = evaluations(folder)
    for budget in BUDGETS:
        spent = [row for row in made if int(row["env_steps"]) <= budget]
        # A run ends with the individual that spends its last env step, a little later.
        latest = made[-1] if budget == STEPS else spent[-1]
        yield {
            "case": env,
            "who": precision,
            "seed": seed,
            "env_steps": str(budget),
            "return_mean": f"{float(latest['mean']):.2f}",
            "evaluated_env_steps": latest["env_steps"],
            "evaluation_episodes": latest["episodes"],
            "run_seconds": wall_at(folder, made[-1]["update"]),
            **provenance([int(seed)]),
        }


if __name__ == "__main__":
    main()
