"""Effect of each part of HTS-RL: the same parts put together otherwise, speed and score per seed.

Every row is one finished run; runs that are in the folder already are read, not repeated, a run
that was stopped goes on, and one of other settings is refused. `training_return` is the mean over
the whole run of the latest 100 episodes' returns: how quickly it learned, with less noise than
where it ended. Cells: `hts` with each correction and learner, with `--lag 0`, with alpha 1 … 256,
with own and central inference, with the hard barrier; `a2c`, `ppo` and `impala`. Rows of other
cells, seeds and budgets that are in the table stay; beside it lies its summary, each cell over its
seeds.

    python benchmarks/learning/hts_ablation.py --runs RUNS --out hts_ablation.csv \\
        --env CartPole-v1 --total-steps 100000 --seeds 0 1 2
"""

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from goals import evaluations
from provenance import provenance, write_table
from run_folders import bring_to_end

from drumline.functional.statistics import (
    bootstrap_interval,
    interquartile_mean,
    interquartile_mean_along,
)

CELL = ("env", "total_steps", "num_envs", "evaluate_episodes", "cell", "flags")
KEY = (*CELL, "seed")


@dataclass(frozen=True)
class Cell:
    """One way of putting the parts together."""

    method: str
    flags: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()


def cells(
    minibatches: int, epochs: int, base: int, alphas: list[int], num_envs: int
) -> dict[str, Cell]:
    """Return every cell by name; `base` is PPO's alpha where it is not what varies.

    PPO has fewer minibatches where an interval has fewer rows than that.
    """

    def ppo(alpha: int) -> tuple[str, ...]:
        rows = alpha * num_envs
        parts = min(minibatches, rows)
        while rows % parts:
            parts -= 1
        return (f"--minibatches={parts}", f"--epochs={epochs}", f"--alpha={alpha}")

    a2c = ("--learner=a2c", "--alpha=5")
    learner = ("--learner=a2c", "--correction=auto")
    corrections = ("truncated-is", "decoupled", "ppo-ratio", "delayed", "vtrace", "none")
    weights = ("delayed", "none", "truncated-is", "vtrace")
    own = ("--learner=ppo", *ppo(base))
    return {
        **{f"hts ppo {name}": Cell("hts", (*own, f"--correction={name}")) for name in corrections},
        **{f"hts a2c {name}": Cell("hts", (*a2c, f"--correction={name}")) for name in weights},
        "hts ppo lag 0": Cell("hts", (*own, "--lag=0")),
        "hts a2c lag 0": Cell("hts", (*a2c, "--lag=0", "--correction=auto")),
        **{f"hts ppo alpha {n}": Cell("hts", ("--learner=ppo", *ppo(n))) for n in alphas},
        **{f"hts a2c alpha {n}": Cell("hts", (*learner, f"--alpha={n}")) for n in alphas},
        "hts ppo hard": Cell("hts", own, ("--barrier=hard",)),
        "hts ppo central": Cell("hts", own, ("--actors=1",)),
        "ppo": Cell("ppo", ppo(base)),
        "a2c": Cell("a2c"),
        "a2c alternating": Cell("a2c", (), ("--executors=2", "--halves=2")),
        "impala own": Cell("impala"),
        "impala central": Cell("impala", (), ("--actors=1",)),
    }


def outcome(folder: Path) -> dict[str, object]:
    with open(folder / "metrics.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    last, third = rows[-1], rows[min(3, len(rows) - 1)]
    made, seconds = (float(last[n]) - float(third[n]) for n in ("env_steps", "wall_seconds"))
    scores = [float(row["mean"]) for row in evaluations(folder)]
    return {
        "env_steps": last["env_steps"],
        "updates": last["update"],
        "env_steps_per_second": f"{made / seconds:.0f}" if seconds > 0 else "",
        "final_score": scores[-1],
        "best_score": max(scores),
        "training_return": mean(
            [r for r in rows if r["episode_return_mean"] not in ("", "nan")], "episode_return_mean"
        ),
        "policy_lag": mean(rows, "policy_lag"),
        "policy_lag_max": max(float(row["policy_lag_max"]) for row in rows),
        "gradient_step_lag": mean(rows, "gradient_step_lag"),
    }


def summary(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return interquartile means with 95 % bootstrap intervals over each cell's seeds."""
    cells: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in CELL), []).append(row)
    table: list[dict[str, object]] = []
    for cell, own in cells.items():
        found: dict[str, object] = dict(zip(CELL, cell, strict=True))
        found["seeds"] = " ".join(sorted({str(row["seed"]) for row in own}, key=int))
        for name in ("final_score", "training_return"):
            values = np.array([float(str(row[name])) for row in own])
            found[f"{name}_iqm"] = f"{interquartile_mean(values):.1f}"
            ends = bootstrap_interval(values, seed=0, statistic=interquartile_mean_along)
            known = len(values) > 1
            found[f"{name}_interval"] = f"{ends.low:.1f} … {ends.high:.1f}" if known else ""
        table.append(found)
    return table


def mean(rows: list[dict[str, str]], name: str) -> str:
    return f"{sum(float(row[name]) for row in rows) / len(rows):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--total-steps", type=int, default=100_000)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--alpha", type=int, default=32, help="PPO's, where it does not vary")
    parser.add_argument("--alphas", nargs="*", type=int, default=[1, 4, 16, 32, 64, 128, 256])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--evaluate-episodes", type=int, default=20)
    parser.add_argument("--cells", nargs="*", help="only those whose name begins with one of these")
    options = parser.parse_args()
    grid = cells(
        options.minibatches, options.epochs, options.alpha, options.alphas, options.num_envs
    )
    wanted = tuple(options.cells or [""])
    table: list[Mapping[str, object]] = []
    if options.out.exists():
        with open(options.out, newline="") as lines:
            table = [*csv.DictReader(lines)]
    if table and (missing := set(KEY) - set(table[0])):
        sys.exit(f"{options.out} has no column {', '.join(sorted(missing))}: give another --out")
    for name, cell in grid.items():
        if not name.startswith(wanted):
            continue
        for seed in options.seeds:
            folder = options.runs / f"{options.env}-{name}-s{seed}".replace(" ", "-")
            flags = [*cell.flags, f"--seed={seed}", f"--total-steps={options.total_steps}"]
            flags += [f"--num-envs={options.num_envs}", "--evaluate-every=0"]
            flags += [f"--evaluate-episodes={options.evaluate_episodes}"]
            bring_to_end(folder, cell.method, options.env, flags, cell.layout)
            row = {
                "env": options.env,
                "total_steps": str(options.total_steps),
                "num_envs": str(options.num_envs),
                "evaluate_episodes": str(options.evaluate_episodes),
                "cell": name,
                "seed": str(seed),
                **outcome(folder),
                "flags": " ".join((*cell.flags, *cell.layout)),
                **provenance([seed]),
            }
            print(row, flush=True)
            table = [*(old for old in table if any(old[k] != row[k] for k in KEY)), row]
            write_table(options.out, table)
            write_table(options.out.with_stem(f"{options.out.stem}_summary"), summary(table))


if __name__ == "__main__":
    main()
