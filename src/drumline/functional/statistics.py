"""Means of small samples, with intervals, for evaluations and comparisons."""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from drumline import seeding

_ELEMENTS_AT_ONCE = 2_000_000


class Interval(NamedTuple):
    """A confidence interval; both ends are nan for one value, which has no spread."""

    low: float
    high: float


def interquartile_mean(values: Float[np.ndarray, " N"]) -> float:
    """Mean of the middle half: ⌊N/4⌋ values are cut from each end (Agarwal et al. 2021)."""
    _check(values)
    return float(interquartile_mean_along(values))


def bootstrap_interval(
    values: Float[np.ndarray, " N"],
    confidence: float = 0.95,
    *,
    seed: int,
    statistic: Callable[..., Any] = np.mean,
) -> Interval:
    """Percentile bootstrap of `statistic(values, axis=…)` from 9,999 resamples.

    Percentile, not BCa, which is undefined for some small samples (its jackknife degenerates).
    """
    _check(values, confidence)
    if values.size == 1:
        return Interval(np.nan, np.nan)
    if np.all(values == values[0]):
        return Interval(float(values[0]), float(values[0]))
    result = _scipy("stats").bootstrap(
        (values,),
        statistic,
        n_resamples=9_999,
        batch=max(1, _ELEMENTS_AT_ONCE // values.size),
        confidence_level=confidence,
        method="percentile",
        rng=seeding.generator(seed, "bootstrap"),
    )
    ends = result.confidence_interval
    return Interval(float(ends.low), float(ends.high))


def interquartile_mean_along(values: np.ndarray, axis: int = -1) -> Any:
    """`interquartile_mean` along an axis, for `bootstrap_interval(…, statistic=…)`."""
    return _scipy("stats").trim_mean(values, 0.25, axis=axis)


def mean_interval(values: Float[np.ndarray, " N"], confidence: float = 0.95) -> Interval:
    """Student's interval of the mean: x̄ ± t · s / √N with N − 1 degrees of freedom."""
    _check(values, confidence)
    if values.size == 1:
        return Interval(np.nan, np.nan)
    mean = float(values.mean(dtype=np.float64))
    if np.all(values == values[0]):
        return Interval(float(values[0]), float(values[0]))
    error = float(values.std(ddof=1, dtype=np.float64)) / np.sqrt(values.size)
    reach = float(_scipy("special").stdtrit(values.size - 1, (1 + confidence) / 2)) * float(error)
    return Interval(mean - reach, mean + reach)


def probability_of_improvement(
    ours: Float[np.ndarray, " N"], theirs: Float[np.ndarray, " M"]
) -> float:
    """P(X > Y) + ½ P(X = Y) over all pairs of one task's runs (Agarwal et al. 2021, section 4.3).

    It is Mann and Whitney's U over N·M. Over several tasks it is the mean of the tasks' values.
    """
    _check(ours)
    _check(theirs)
    return float(np.mean((np.sign(ours[:, None] - theirs) + 1) / 2))


def _scipy(module: str) -> Any:
    """Import late, because scipy.stats costs a second; untyped, because it has no stubs."""
    return importlib.import_module(f"scipy.{module}")


def _check(values: np.ndarray, confidence: float = 0.5) -> None:
    if values.size == 0:
        raise ValueError("no values: a mean needs at least one")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{np.sum(~np.isfinite(values))} of {values.size} values are not finite")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is a share between 0 and 1, got {confidence}")
