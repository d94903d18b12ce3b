"""Do real environments keep the assumptions of claim 1? Recorded step times, checked and replayed.

Each environment is stepped with random actions and its step times recorded, resets included. A row
says how the recording differs from independent exponential times, what that makes of the slowdown
against the ideal (time over the time without waiting: claim 1 with exponential times, with
the Gamma law of the recording's variance, and by replaying the recording), and what the runtime
measured on sleeping environments that replay it, stretched to a mean of 5 ms.

    python benchmarks/throughput/step_time_traces.py --out benchmarks/results/step_time_traces.csv
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from hts_theory import Calibration, Task, Window, predicted_seconds
from provenance import provenance, write_table
from sleeping import measure
from theory.barriers import (
    hard_barrier,
    interval_seconds,
    sliding_barrier,
    slowdown,
)
from theory.step_time_fit import autocorrelation, fit, variance_growth
from theory.step_times import recorded
from theory.throughput import gamma_barrier_seconds

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.lanes_spec import LanesSpec
from drumline.policies.actions import head_for, sample

CASES = {
    "Pong-v5": EnvironmentSpec("Pong-v5", "envpool"),
    "HalfCheetah-v5": EnvironmentSpec("HalfCheetah-v5"),
    "CartPole-v1": EnvironmentSpec("CartPole-v1"),
}
RULES = {"hard": hard_barrier, "sliding": sliding_barrier}
STRETCHED_TO = 5e-3


def record(spec: EnvironmentSpec, steps: int, seed: int) -> np.ndarray:
    """Return the seconds of `steps` steps of one environment, after as many as an eighth more."""
    lanes = LanesSpec(spec, seed, 0, 1)()
    lanes.begin(0)
    head, rng = head_for(lanes.action_space), np.random.default_rng(seed)
    outputs = np.zeros((1, head.output_size), np.float32)
    seconds = np.empty(steps + steps // 8)
    for t in range(len(seconds)):
        draw = rng.standard_normal if head.noise_kind == "normal" else rng.random
        actions, _ = sample(head, outputs, draw((1, head.noise_size), dtype=np.float32))
        began = time.perf_counter()
        lanes.step(None, actions)
        seconds[t] = time.perf_counter() - began
    lanes.close()
    return seconds[steps // 8 :]


def replayed_slowdown(trace: np.ndarray, rule: str, environments: int, alpha: int) -> float:
    """Return the long-run slowdown if every environment repeats the recording from some place."""
    law = partial(recorded, trace=trace)
    steps = law(np.random.default_rng(0), (60 * alpha, environments, 8))
    timeline = RULES[rule](interval_seconds(steps, alpha))
    return float(slowdown(timeline, alpha * float(trace.mean()), skip=20).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--environments", type=int, default=16)
    parser.add_argument("--alphas", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measurement, at least")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    options = parser.parse_args()
    calibration = Calibration(options.seconds)
    table: list[dict[str, Any]] = []
    for name in options.cases:
        for seed in options.seeds:
            trace = record(CASES[name], options.steps, seed)
            for alpha in options.alphas:
                for barrier in ("hard", "sliding"):
                    row = row_of(name, trace, alpha, barrier, seed, options, calibration)
                    table.append(row)
                    print(row, flush=True)
                    write_table(options.out, table)


def row_of(
    name: str,
    trace: np.ndarray,
    alpha: int,
    barrier: Literal["hard", "sliding"],
    seed: int,
    options: Any,
    calibration: Calibration,
) -> dict[str, Any]:
    found, n = fit(trace), options.environments
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "trace.txt"
        stretched = trace * (STRETCHED_TO / found.mean)
        path.write_text("\n".join(f"{seconds:.9f}" for seconds in stretched))
        task = Task("trace", n, alpha, f"trace:{path}", barrier)
        constants, window = calibration(task), Window.of(task, options.seconds)
        cell = task.cell(seed)
        measured = measure(cell, *window, options.seconds)
    predicted = window.intervals * alpha * n / predicted_seconds(cell, window, constants)
    formulas = {
        f"hard_slowdown_{label}": gamma_barrier_seconds(n, alpha, order=order) / alpha
        for label, order in (("exponential", 1.0), ("gamma", found.gamma_order))
    }
    return {
        "environment": name,
        "engine": CASES[name].engine,
        "steps": len(trace),
        "mean_microseconds": f"{found.mean * 1e6:.2f}",
        "variation": f"{found.variation:.4f}",
        "gamma_order": f"{found.gamma_order:.2f}",
        "distance_to_exponential": f"{found.exponential_distance:.4f}",
        "distance_to_gamma": f"{found.gamma_distance:.4f}",
        "autocorrelation_1": f"{autocorrelation(trace, 1):.4f}",
        "autocorrelation_16": f"{autocorrelation(trace, 16):.4f}",
        "environments": n,
        "alpha": alpha,
        "variance_growth": f"{variance_growth(trace, alpha):.3f}",
        "barrier": barrier,
        **{label: f"{value:.4f}" for label, value in formulas.items()},
        "slowdown_replayed": f"{replayed_slowdown(trace, barrier, n, alpha):.4f}",
        "measured_env_steps_per_second": f"{measured.env_steps_per_second:.1f}",
        "predicted_env_steps_per_second": f"{predicted:.1f}",
        "measured_over_predicted": f"{measured.env_steps_per_second / predicted:.4f}",
        "step_handover_milliseconds": f"{constants.step * 1e3:.4f}",
        "barrier_handover_milliseconds": f"{constants.barrier * 1e3:.4f}",
        **provenance([seed]),
    }


if __name__ == "__main__":
    main()
