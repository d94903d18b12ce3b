"""Mean duration of a generation that ends with a barrier, in mean episode durations."""

import heapq
import math

import numpy as np


def generation_seconds(
    individuals: int,
    processes: int,
    shape: float,
    rng: np.random.Generator,
    replications: int = 10_000,
) -> float:
    """E[time until all episodes have ended], each begun by an idle process (Graham 1969).

    Durations are Gamma(shape) of mean 1; an infinite shape means constant. For exponential ones
    (shape 1) it is N/c + H_c − 1: the time until one of the c processes first finds no episode
    left, then the longest of the last c episodes.
    """
    if not math.isfinite(shape):
        return float(-(-individuals // processes))
    drawn = rng.gamma(shape, 1.0 / shape, (replications, individuals))
    return float(np.mean([_makespan(durations, processes) for durations in drawn.tolist()]))


def _makespan(durations: list[float], processes: int) -> float:
    busy = [0.0] * processes
    for duration in durations:
        heapq.heapreplace(busy, busy[0] + duration)
    return max(busy)
