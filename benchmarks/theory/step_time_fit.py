"""Test of recorded step times against the assumptions of claim 1: exponential, independent."""

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

Trace = Float64[np.ndarray, " steps"]


class StepTimeFit(NamedTuple):
    """A trace against the exponential and the Gamma law of its own mean and variance."""

    mean: float
    variation: float
    """Std over mean: 1 for exponential times."""
    gamma_order: float
    """1 / variation²: the k of Gamma(k)."""
    exponential_distance: float
    """Largest difference of the distribution functions (Kolmogorov and Smirnov)."""
    gamma_distance: float


def fit(trace: Trace) -> StepTimeFit:
    """Match the first two moments and compare the distributions."""
    mean, std = float(trace.mean()), float(trace.std())
    order = math.inf if std == 0.0 else (mean / std) ** 2
    return StepTimeFit(
        mean,
        std / mean,
        order,
        _distance(trace, 1.0, mean),
        0.0 if order == math.inf else _distance(trace, order, mean),
    )


def autocorrelation(trace: Trace, lag: int) -> float:
    """ρ(lag) of consecutive times: 0 for independent ones, and 0 for constant ones."""
    deviations = trace - trace.mean()
    variance = float(deviations @ deviations)
    return float(deviations[lag:] @ deviations[:-lag]) / variance if variance else 0.0


def variance_growth(trace: Trace, alpha: int) -> float:
    """Var(time of α steps) / (α Var(time of one)) = 1 + 2 Σ (1 − j/α) ρ(j): 1 if independent.

    Batch synchronisation helps while it is far below α. It is α if fluctuations never average out.
    """
    sums = np.convolve(trace - trace.mean(), np.ones(alpha), "valid")
    variance = float(trace.var())
    return float(np.mean(sums**2)) / (alpha * variance) if variance else 1.0


def _distance(trace: Trace, order: float, mean: float) -> float:
    special: Any = importlib.import_module("scipy.special")  # SciPy is slow to import
    model = special.gammainc(order, np.sort(trace) * (order / mean))
    steps = np.arange(len(trace) + 1) / len(trace)
    return float(max((steps[1:] - model).max(), (model - steps[:-1]).max()))
