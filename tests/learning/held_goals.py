"""When runs met a goal, as the benchmarks say it: at an evaluation, and held at the next one."""

import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark_scripts import load_script

from drumline.api.run import train


def median_reached(config: Any, goal: float, out: Path, **options: Any) -> float:
    """Return the env steps when the goal was met, as the median of three seeds; inf: never."""
    goals, found = load_script("learning", "goals"), list[float]()
    for seed in (0, 1, 2):
        run = train(replace(config, seed=seed), out=out / str(seed), **options)
        met = goals.reached(goals.evaluations(run.path), goal)
        found.append(float(met["env_steps"]) if met else math.inf)
    return statistics.median(found)
