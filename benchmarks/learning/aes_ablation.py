"""Sources of AES-RL's result: rules, share of refined individuals, asynchrony, sensitivity.

The grid is {mean rule} × {variance rule} × {p_desired} × {sync, async}; pairs of rules that are no
pair are left out. Around `--base` one of r, b, n and K varies at a time. Every row of the CSV is
one finished run with its evaluations against env steps, virtual seconds (a core for every logical
worker: the same on every machine) and wall-clock seconds (of this machine with what else it did).
A row that is in the CSV is kept; a run that was stopped goes on, and one of other settings is
refused. `--flags` are for every run, and r, K and n vary around what they say; what a cell itself
sets goes before them. Beside the CSV lies its summary: each cell over its seeds, at the end and at
equal budgets among those of the same p_desired and flags.

    python benchmarks/learning/aes_ablation.py --runs RUNS --out aes_ablation.csv \\
        --env InvertedPendulum-v5 --total-steps 5000 --seeds 0 1
"""

import argparse
import csv
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table
from run_folders import bring_to_end, resolved

from drumline.display.contributions import KINDS, contribution, read_individuals
from drumline.display.run_data import read_columns
from drumline.functional.stability import spread, stability
from drumline.functional.statistics import interquartile_mean
from drumline.recipes.aes import AES

CLOCKS = ("env_steps", "virtual_seconds", "wall_seconds")
KEY = ("env", "total_steps", "cell", "seed", "flags")


@dataclass(frozen=True)
class Cell:
    """One way of setting AES-RL; `changed` says what differs from the base, if it is no grid."""

    mean_rule: str
    variance_rule: str
    p_desired: float
    schedule: str
    changed: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        words = [f"{self.mean_rule}/{self.variance_rule}", f"p={self.p_desired:g}", self.schedule]
        return " ".join([*words, *(f"{name}={value:g}" for name, value in self.changed.items())])

    @property
    def settings(self) -> dict[str, object]:
        return {
            "mean_rule": self.mean_rule,
            "variance_rule": self.variance_rule,
            "p_desired": self.p_desired,
            "schedule": self.schedule,
            **self.changed,
        }

    @property
    def flags(self) -> list[str]:
        return [f"--{k.replace('_', '-')}={v}" for k, v in self.settings.items()]


def grid(
    means: Sequence[str],
    variances: Sequence[str],
    shares: Sequence[float],
    schedules: Sequence[str],
) -> list[Cell]:
    """Return every cell of the grid whose rules go together."""
    every = itertools.product(means, variances, shares, schedules)
    return [cell for cell in itertools.starmap(Cell, every) if legal(cell)]


def sensitivity(
    settings: Mapping[str, Any], share: float, schedule: str, factors: Sequence[float]
) -> list[Cell]:
    """Return the published rules, and with r, K, n and b changed one at a time.

    n is that of welford-fixed; b is that of absolute, and is -r · factor, as the presets' is -r.
    """
    around = ("relative", "welford-adaptive", share, schedule)
    names = ("fitness_range", "control_slope", "welford_samples")
    r, slope, samples = (settings[name] for name in names)
    found = [Cell(*around)]
    for factor in factors:
        if factor != 1.0:
            found.append(Cell(*around, {"fitness_range": r * factor}))
            found.append(Cell(*around, {"control_slope": slope * factor}))
        found += [
            Cell(
                *("relative", "welford-fixed", share, schedule),
                {"welford_samples": max(1.0, samples * factor)},
            ),
            Cell(
                *("absolute", "welford-adaptive", share, schedule),
                {"fitness_baseline": -r * factor},
            ),
        ]
    return found


def legal(cell: Cell) -> bool:
    try:
        AES(env="CartPole-v1", **cell.settings)
    except ValueError:
        return False
    return True


def outcome(folder: Path) -> dict[str, object]:
    """Return what a run came to: scores, steadiness, and what either kind of individual did."""
    metrics = read_columns(folder / "metrics.csv", ("update", *CLOCKS))
    evaluations = read_columns(folder / "evaluations.csv", ("update", "env_steps", "mean"))
    means = evaluations["mean"]
    times = {
        clock: np.interp(evaluations["update"], metrics["update"], metrics[clock])
        for clock in CLOCKS[1:]
    }
    times["env_steps"] = evaluations["env_steps"]
    fall = stability(means)
    row: dict[str, object] = {
        "updates": int(metrics["update"][-1]),
        **{clock: f"{metrics[clock][-1]:.6g}" for clock in CLOCKS},
        "final_score": float(means[-1]),
        "best_score": float(means.max()),
        "largest_drawdown": fall.largest_drawdown,
        "falling_share": f"{fall.falling_share:.3f}",
    }
    individuals = read_individuals(folder)
    for kind in KINDS:
        for name, value in contribution(individuals, kind)._asdict().items():
            row[f"{kind.lower()}_{name}"] = "" if math.isnan(value) else f"{value:.5g}"
    for clock in CLOCKS:
        row[f"evaluation_{clock}"] = ";".join(f"{at:.6g}" for at in times[clock])
    row["evaluation_means"] = ";".join(map(repr, means.tolist()))
    return row


def summary(rows: Sequence[Mapping[str, str]]) -> list[dict[str, object]]:
    """Return each cell over its seeds: at the end, and at budgets that every rival has spent.

    Rivals have the same flags and the same p_desired: a share of refined individuals costs many
    times what their env steps cost, so within the time of runs without them no other has begun.
    """
    by_cell: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        by_cell.setdefault((*rivalry(row), row["cell"]), []).append(row)
    table: list[dict[str, object]] = []
    for (env, steps, flags, share, cell), own in by_cell.items():
        rivals = [row for row in rows if rivalry(row) == (env, steps, flags, share)]
        final = np.array([float(row["final_score"]) for row in own])
        apart = spread(final)
        found: dict[str, object] = {
            "env": env,
            "total_steps": steps,
            "flags": flags,
            "cell": cell,
            "seeds": " ".join(sorted({row["seed"] for row in own}, key=int)),
            "final_iqm": round(interquartile_mean(final), 3),
            "final_std": "" if math.isnan(apart.std) else round(apart.std, 3),
            "worst_seed": apart.worst,
            "largest_drawdown": round(mean(own, "largest_drawdown"), 3),
        }
        for clock in CLOCKS:
            budget = min(numbers(row[f"evaluation_{clock}"])[-1] for row in rivals)
            scores = np.array([score_at(row, clock, budget) for row in own])
            found[f"budget_{clock}"] = round(budget, 3)
            found[f"iqm_at_equal_{clock}"] = (
                "" if np.isnan(scores).any() else round(interquartile_mean(scores), 3)
            )
        for clock in CLOCKS[1:]:
            found[clock] = round(mean(own, clock), 3)
        table.append(found)
    return table


def rivalry(row: Mapping[str, str]) -> tuple[str, str, str, str]:
    return row["env"], row["total_steps"], row["flags"], row["p_desired"]


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(";")]


def score_at(row: Mapping[str, str], clock: str, budget: float) -> float:
    """Return the newest evaluation within the budget; nan before the first."""
    known = [
        score
        for at, score in zip(
            numbers(row[f"evaluation_{clock}"]), numbers(row["evaluation_means"]), strict=True
        )
        if at <= budget
    ]
    return known[-1] if known else math.nan


def mean(rows: Sequence[Mapping[str, str]], name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)


def keep(table: Sequence[Mapping[str, str]], out: Path) -> None:
    write_table(out, table)
    write_table(out.with_stem(f"{out.stem}_summary"), summary(table))


def read_table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--env", default="InvertedPendulum-v5")
    parser.add_argument("--total-steps", type=int, default=5_000)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--means", nargs="*", default=["relative", "rank"])
    parser.add_argument("--variances", nargs="*", default=["welford-adaptive", "rank"])
    parser.add_argument(
        "--shares", nargs="*", type=float, default=[0.0, 0.5, 1.0], help="p_desired"
    )
    parser.add_argument("--schedules", nargs="*", default=["async", "sync"])
    parser.add_argument("--base", nargs=2, default=["0.5", "async"], help="p_desired and schedule")
    parser.add_argument(
        "--factors", nargs="*", type=float, default=[0.2, 1.0, 5.0], help="of r, K, n and b"
    )
    parser.add_argument("--flags", nargs="*", default=[], help="for every run, without dashes")
    parser.add_argument("--layout", nargs="*", default=["pool=inline"], help="the same, of layout")
    options = parser.parse_args()
    share, schedule = float(options.base[0]), options.base[1]
    flags = [f"--{word}" for word in (*options.flags, f"total-steps={options.total_steps}")]
    cells = {
        cell.name: cell
        for cell in [
            *grid(options.means, options.variances, options.shares, options.schedules),
            *sensitivity(resolved("aes", options.env, flags), share, schedule, options.factors),
        ]
    }
    layout = [f"--{word}" for word in (*options.layout, "no-tensorboard")]
    table = read_table(options.out)
    done = {tuple(row[name] for name in KEY) for row in table}
    # Seeds first, so that a grid that is stopped has all its cells.
    for seed, (name, cell) in itertools.product(options.seeds, cells.items()):
        words_of_all = " ".join(options.flags)
        key = (options.env, str(options.total_steps), name, str(seed), words_of_all)
        if key in done:
            continue
        folder = options.runs / f"{options.env}-{name}-s{seed}".replace(" ", "-").replace("/", "-")
        told = [*flags, *cell.flags, f"--seed={seed}"]  # of a flag that is repeated the last counts
        bring_to_end(folder, "aes", options.env, told, layout)
        row = {
            **dict(zip(KEY, key, strict=True)),
            **{k: str(v) for k, v in list(cell.settings.items())[:4]},
            "changed": " ".join(f"{k}={v:g}" for k, v in cell.changed.items()),
            **{k: str(v) for k, v in outcome(folder).items()},
            **provenance(options.seeds),
        }
        table.append(row)
        print(f"{name}, seed {seed}: {row['final_score']}", flush=True)
        keep(table, options.out)
    if table:
        keep(table, options.out)


if __name__ == "__main__":
    main()
