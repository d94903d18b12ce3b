"""The sorting example with noise of full rank and of low rank: the final evaluation of each seed.

Settings are those of examples/sorting.py; nothing was tuned for a rank. The IQM over seeds with its
95 % interval is printed for each kind of noise. Rows of --out that are there are not made again.

    python benchmarks/learning/low_rank_sorting.py --out benchmarks/results/low_rank_sorting.csv
"""

import argparse
import csv
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from provenance import provenance, write_table

import drumline
from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)

SETTINGS: dict[str, Any] = {
    **drumline.ES.OBJECTIVE,
    "policy": "sorting:Sorter",
    "population_size": 100,
    "learning_rate": 0.05,
    "total_steps": 20_000,
}
KINDS: dict[str, dict[str, Any]] = {
    "full rank": {"objective": "sorting:exact_match"},
    "low-rank:1": {"objective": "sorting:exact_match", "noise": "low-rank:1"},
    "low-rank:1, 10 members a call": {
        "objective": "sorting:exact_match_of_members",
        "noise": "low-rank:1",
        "members_per_call": 10,
    },
}


def measured(kind: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one seed; its last evaluation has 20 calls of 64 sequences."""
    config = drumline.ES(**{**SETTINGS, "total_steps": steps, **KINDS[kind], "seed": seed})
    began = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        run = drumline.train(config, workers="inline", out=Path(place) / "run")
        row = (run.path / "evaluations.csv").read_text().splitlines()
    columns = dict(zip(row[0].split(","), row[-1].split(","), strict=True))
    return {
        "noise": kind,
        "seed": seed,
        "total_steps": steps,
        "objective": columns["mean"],
        "core_seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--steps", type=int, default=SETTINGS["total_steps"])
    options = parser.parse_args()
    seeds = list(map(int, options.seeds.split(",")))
    rows: list[dict[str, Any]] = []
    if options.out.exists():
        with open(options.out, newline="") as lines:
            rows += csv.DictReader(lines)
    there = {(row["noise"], int(row["seed"])) for row in rows}
    for seed in seeds:
        for kind in KINDS:
            if (kind, seed) not in there:
                row = measured(kind, seed, options.steps)
                print(row, flush=True)
                rows.append({**row, **provenance([seed])})
                write_table(options.out, rows)
    for kind in KINDS:
        scores = np.array([float(r["objective"]) for r in rows if r["noise"] == kind])
        low, high = bootstrap_interval(scores, seed=0, statistic=interquartile_mean_along)
        middle = interquartile_mean(scores)
        print(f"{kind}: IQM {middle:.3f}, 95 % interval {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
