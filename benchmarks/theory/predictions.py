"""Predicted slowdowns of HTS-RL's barriers: laws of step times × alpha, simulated and closed form.

The simulation replays `theory.barriers` over drawn step times, without an update's time and
without constants, and leaves the first fifth of the intervals out. `closed_form` is claim 1 and
its like for bursts and stragglers, `extreme_value` and `large_alpha` are claim 1's approximations:
all of the hard barrier, where there is a formula. An environment that never waits has 1.

    python benchmarks/theory/predictions.py --out benchmarks/results/hts_predictions.csv
"""

import argparse
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import provenance, write_table

from theory.barriers import hard_barrier, interval_seconds, sliding_barrier, slowdown
from theory.step_times import StepTimeLaw, bursts, constant, exponential, gamma, straggler
from theory.throughput import (
    burst_barrier_slowdown,
    extreme_value_barrier_seconds,
    gamma_barrier_seconds,
    large_alpha_slowdown,
    straggler_barrier_slowdown,
)

LAWS: dict[str, StepTimeLaw] = {
    "constant": constant,
    "gamma 4": partial(gamma, order=4.0),
    "exponential": exponential,
    "bursts of 4": partial(bursts, burst_steps=4.0),
    "bursts of 64": partial(bursts, burst_steps=64.0),
    "bursts of 512": partial(bursts, burst_steps=512.0),
    "straggler": straggler,
}
ALPHAS = (1, 16, 128)
BARRIERS = {"hard": hard_barrier, "sliding": sliding_barrier}


def simulated(name: str, environments: int, alpha: int, steps: int, runs: int) -> dict[str, str]:
    """Return the slowdown under each barrier, over the same step times."""
    rng = np.random.default_rng(0)
    times = LAWS[name](rng, (steps, environments, runs))
    seconds, mean = interval_seconds(times, alpha), mean_step_seconds(name, environments)
    skip = len(seconds) // 5
    return {
        f"{barrier}_slowdown": f"{slowdown(rule(seconds), alpha * mean, skip).mean():.3f}"
        for barrier, rule in BARRIERS.items()
    }


def mean_step_seconds(name: str, environments: int) -> float:
    """Return the mean of a law over steps and environments: bursts are slow a tenth of the time."""
    if name == "straggler":
        return (environments - 1 + 10.0) / environments
    return 1.9 if name.startswith("bursts") else 1.0


def closed(name: str, environments: int, alpha: int) -> dict[str, float]:
    """Return the hard barrier's slowdown by the formulas that there are for a law."""
    if name == "straggler":
        return {"closed_form": straggler_barrier_slowdown(environments, 10.0)}
    if name.startswith("bursts"):
        length = float(name.split()[-1])
        return {"closed_form": burst_barrier_slowdown(environments, alpha, burst_steps=length)}
    if name == "constant":
        return {"closed_form": 1.0}
    order = 4.0 if name == "gamma 4" else 1.0
    return {
        "closed_form": gamma_barrier_seconds(environments, alpha, order=order) / alpha,
        "extreme_value": extreme_value_barrier_seconds(environments, alpha, order=order) / alpha,
        "large_alpha": large_alpha_slowdown(environments, alpha, 1.0 / math.sqrt(order)),
    }


def main() -> None:
    """Print and keep a row for each law and alpha."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--environments", type=int, default=32)
    parser.add_argument("--steps", type=int, default=25_600, help="of each environment in a run")
    parser.add_argument("--runs", type=int, default=16)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in LAWS:
        for alpha in ALPHAS:
            formulas = closed(name, options.environments, alpha)
            found = {"closed_form": "", "extreme_value": "", "large_alpha": ""}
            found |= {formula: f"{value:.3f}" for formula, value in formulas.items()}
            cell = {"law": name, "environments": options.environments, "alpha": alpha}
            made = simulated(name, options.environments, alpha, options.steps, options.runs)
            rows.append({**cell, **made, **found, **provenance([0])})
            print({**cell, **made, **found}, flush=True)
    write_table(options.out, rows)


if __name__ == "__main__":
    main()
