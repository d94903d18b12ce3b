"""Recurrences for the start times of intervals, under HTS-RL's barrier and the sliding one.

Environment i fills its part of storage D_k between start and finish of its interval k. The learner
turns D_{k−1} into version k+1, which interval k+1 needs. Versions 0 and 1 are published at time 0.
Arrays are `[intervals, environments, replications]`; replications are independent.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

Intervals = Float64[np.ndarray, "intervals environments replications"]


class Timeline(NamedTuple):
    """Start and finish of each environment's intervals, and publication of versions, in seconds."""

    starts: Intervals
    finishes: Intervals
    published: Float64[np.ndarray, "intervals replications"]


def interval_seconds(
    step_seconds: Float64[np.ndarray, "steps environments replications"],
    alpha: int,
    inference_seconds: float = 0.0,
) -> Intervals:
    """Seconds of each `alpha` steps, every step with `inference_seconds` of waiting before it."""
    steps, environments, replications = step_seconds.shape
    if steps % alpha:
        raise ValueError(f"{steps} steps are not a whole number of intervals of {alpha}")
    blocks = step_seconds.reshape(steps // alpha, alpha, environments, replications)
    return blocks.sum(axis=1) + alpha * inference_seconds


def hard_barrier(
    seconds: Intervals, update_seconds: float = 0.0, handover_seconds: float = 0.0
) -> Timeline:
    """All environments start interval k+1 together, when all finished k and k+1 is published."""

    def ready(finishes: np.ndarray) -> np.ndarray:
        return finishes.max(axis=0) + handover_seconds

    return _timeline(seconds, update_seconds, handover_seconds, ready)


def sliding_barrier(
    seconds: Intervals, update_seconds: float = 0.0, handover_seconds: float = 0.0
) -> Timeline:
    """An environment starts interval k+1 when it finished k and version k+1 is published.

    Version k+1 is published one update after D_{k−1} is complete and version k is published, as
    under the hard barrier: only the waits differ. An environment that waited goes on
    `handover_seconds` after the end of its wait.
    """
    return _timeline(seconds, update_seconds, handover_seconds, ready=lambda finishes: finishes)


def without_overlap(
    seconds: Intervals, update_seconds: float = 0.0, handover_seconds: float = 0.0
) -> Timeline:
    """`--lag 0`: all start interval k+1 together, one update after all have finished k.

    An interval takes max_i seconds[k, i] + update_seconds + handover_seconds, where the hard
    barrier takes the larger of the first two.
    """
    slowest = seconds.max(axis=1)
    ends = np.cumsum(slowest + update_seconds + handover_seconds, axis=0)
    starts = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])
    published = np.maximum(starts - handover_seconds, 0.0)
    everybodys = np.repeat(starts[:, None], seconds.shape[1], axis=1)
    return Timeline(everybodys, everybodys + seconds, published)


def slowdown(
    timeline: Timeline, ideal_interval_seconds: float, skip: int = 0
) -> Float64[np.ndarray, " replications"]:
    """Time per interval over the ideal, between the last finish of interval `skip` and the end.

    The ideal is alpha × the mean step time over all environments. Skip the first intervals for the
    long-run rate: environments that drift apart wait less in the early intervals.
    """
    last = timeline.finishes.max(axis=1)
    return (last[-1] - last[skip]) / (len(last) - 1 - skip) / ideal_interval_seconds


def _timeline(
    seconds: Intervals,
    update_seconds: float,
    handover_seconds: float,
    ready: Callable[[np.ndarray], np.ndarray],
) -> Timeline:
    starts, finishes = np.empty_like(seconds), np.empty_like(seconds)
    published = np.zeros((seconds.shape[0], seconds.shape[2]))
    for k in range(len(seconds)):
        seen = published[k]
        if k >= 2:
            complete = finishes[k - 2].max(axis=0)
            published[k] = np.maximum(complete, published[k - 1]) + update_seconds
            seen = published[k] + handover_seconds
        starts[k] = np.maximum(ready(finishes[k - 1]) if k else 0.0, seen)
        finishes[k] = starts[k] + seconds[k]
    return Timeline(starts, finishes, published)
