"""Steadiness of one run's scores, and spread of the last scores of several runs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Stability(NamedTuple):
    """Falls of one run's scores in their order; all 0 if they never fell."""

    largest_drawdown: float
    """max_t (max_{s ≤ t} f_s − f_t), in units of the score."""
    mean_drawdown: float
    """The mean over t of the same."""
    falling_share: float
    """Share of the scores that are below the one before."""


class Spread(NamedTuple):
    """Spread of the scores of several runs."""

    std: float
    """Standard deviation with N − 1 in the denominator; nan for one run."""
    worst: float


class Falls:
    """The largest drawdown of scores that come one by one."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        self._best = -np.inf

    def add(self, score: float) -> None:
        """Add the next score, which is finite."""
        self.count += 1
        self._best = max(self._best, score)
        self.largest = max(self.largest, self._best - score)


def drawdowns(scores: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """max_{s ≤ t} f_s − f_t: distance of each score below the best so far."""
    return np.maximum.accumulate(scores) - scores


def stability(scores: Float[np.ndarray, " N"]) -> Stability:
    """Return size and frequency of the falls of one run's scores."""
    _check(scores)
    below = drawdowns(scores)
    falling = float(np.mean(np.diff(scores) < 0)) if scores.size > 1 else 0.0
    return Stability(float(below.max()), float(below.mean()), falling)


def spread(scores: Float[np.ndarray, " N"]) -> Spread:
    """Return the std and the lowest of the scores of several runs."""
    _check(scores)
    std = float(np.std(scores, ddof=1)) if scores.size > 1 else np.nan
    return Spread(std, float(scores.min()))


def _check(scores: np.ndarray) -> None:
    if scores.size == 0:
        raise ValueError("no scores: stability needs at least one")
    if not np.all(np.isfinite(scores)):
        raise ValueError(f"{np.sum(~np.isfinite(scores))} of {scores.size} scores are not finite")
