"""Predictions of queueing theory and order statistics for HTS-RL and its rivals.

"Slowdown" is time over the ideal time, in which no environment ever waits: 1 is perfect.
"""

import importlib
import math
from typing import Any

import numpy as np
from jaxtyping import Float64

from theory.step_times import burst_probabilities


def gamma_barrier_seconds(
    environments: int, alpha: int, *, mean_step_seconds: float = 1.0, order: float = 1.0
) -> float:
    """E[max of n Gamma(αk)] = ∫ 1 − F(x)ⁿ dx: an interval under the hard barrier, exactly.

    Steps are independent Gamma(k) of the given mean; `order` k = 1 is exponential (claim 1).
    """
    special, shape = _scipy("special"), alpha * order
    # Below `low` the integrand is 1 and above `high` it is 0, to 1e-16.
    low = special.gammaincinv(shape, 1e-16 ** (1 / environments))
    high = special.gammainccinv(shape, 1e-16 / environments)
    middle = special.gammaincinv(shape, 0.5 ** (1 / environments))

    def beyond(x: float) -> float:
        return -math.expm1(environments * special.log1p(-special.gammaincc(shape, x)))

    rest = sum(_integral(beyond, *ends) for ends in ((low, middle), (middle, high)))
    return float(low + rest) * mean_step_seconds / order


def extreme_value_barrier_seconds(
    environments: int, alpha: int, *, mean_step_seconds: float = 1.0, order: float = 1.0
) -> float:
    """γ Q(1 − 1/(ne)) + (1 − γ) Q(1 − 1/n), Q the quantile of Gamma(αk): HTS-RL's claim 1.

    The mean of the Gumbel law that fits the maximum; within 0.5 % for n ≥ 16 and α ≥ 4.
    """
    special, shape = _scipy("special"), alpha * order
    location = special.gammainccinv(shape, 1 / environments)
    beyond = special.gammainccinv(shape, 1 / (environments * math.e))
    quantiles = np.euler_gamma * beyond + (1 - np.euler_gamma) * location
    return float(quantiles) * mean_step_seconds / order


def large_alpha_slowdown(environments: int, alpha: int, variation: float = 1.0) -> float:
    """1 + v eₙ / √α, the hard barrier by the central limit theorem.

    `variation` v is a step time's std over its mean (1 for exponential ones, 1/√k for Gamma(k)).
    """
    return 1 + variation * expected_largest_normal(environments) / math.sqrt(alpha)


def expected_largest_normal(count: int) -> float:
    """eₙ = E[max of n standard normals] = ∫₀^∞ 1 − Φ(x)ⁿ − Φ(−x)ⁿ dx; e₁₆ = 1.766."""
    normal = _scipy("special").ndtr

    def beyond(x: float) -> float:
        return 1 - normal(x) ** count - normal(-x) ** count

    return _integral(beyond, 0.0, 12.0)


def burst_barrier_slowdown(
    environments: int,
    alpha: int,
    *,
    burst_steps: float,
    fast: float = 1.0,
    slow: float = 10.0,
    slow_share: float = 0.1,
) -> float:
    """The hard barrier with `step_times.bursts`, exactly: a sum over the count of slow steps."""
    slow_steps = np.cumsum(_slow_step_distribution(alpha, burst_steps, slow_share))
    of_the_slowest = np.diff(slow_steps**environments, prepend=0.0)
    seconds = alpha * fast + (slow - fast) * np.arange(alpha + 1)
    mean_seconds = alpha * (fast + (slow - fast) * slow_share)
    return float(seconds @ of_the_slowest) / mean_seconds


def straggler_barrier_slowdown(environments: int, factor: float) -> float:
    """One environment permanently `factor` times as slow: neither alpha nor sliding helps."""
    return factor * environments / (environments - 1 + factor)


def queue_lag(utilization: float, capacity: int | None = None) -> float:
    """Mean policy lag of an asynchronous learner in updates (HTS-RL's claim 2): E[N] of M/M/1.

    ρ / (1 − ρ), infinite from ρ = nλ₀/μ = 1 on. With a queue of `capacity` items in total it is
    M/M/1/C, where items that arrive at a full queue are lost. HTS-RL's own lag is 1.
    """
    if capacity is None:
        return utilization / (1 - utilization) if utilization < 1 else math.inf
    counts = np.arange(capacity + 1)
    # summed from the likelier end, so that no power overflows
    weights = utilization**counts if utilization <= 1 else (1 / utilization) ** counts[::-1]
    return float(counts @ weights / weights.sum())


def _slow_step_distribution(
    alpha: int, burst_steps: float, slow_share: float
) -> Float64[np.ndarray, " counts"]:
    """P(count of slow steps among `alpha`), one step of the chain at a time."""
    leave, enter = burst_probabilities(burst_steps, slow_share)
    in_fast, in_slow = np.zeros(alpha + 1), np.zeros(alpha + 1)
    in_fast[0], in_slow[1] = 1 - slow_share, slow_share
    for _ in range(alpha - 1):
        to_fast = in_fast * (1 - enter) + in_slow * leave
        to_slow = in_fast * enter + in_slow * (1 - leave)
        in_fast, in_slow = to_fast, np.append(0.0, to_slow[:-1])
    return in_fast + in_slow


def _integral(function: Any, low: float, high: float) -> float:
    return float(_scipy("integrate").quad(function, low, high, epsabs=1e-12, limit=200)[0])


def _scipy(module: str) -> Any:
    """Import late, because SciPy is slow to import; untyped, because it has no stubs."""
    return importlib.import_module(f"scipy.{module}")
