"""Laws of an environment's step times, sampled as `[steps, environments, replications]`.

Fix a law's numbers with `functools.partial`: `partial(gamma, order=4)`.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float64

Shape = tuple[int, int, int]
"""Steps, environments, replications."""
StepTimes = Float64[np.ndarray, "steps environments replications"]
StepTimeLaw = Callable[[np.random.Generator, Shape], StepTimes]


def constant(rng: np.random.Generator, shape: Shape, *, seconds: float = 1.0) -> StepTimes:
    """Every step takes `seconds`."""
    return np.full(shape, float(seconds))


def exponential(rng: np.random.Generator, shape: Shape, *, mean: float = 1.0) -> StepTimes:
    """Independent Exp(1 / mean): the assumption of HTS-RL's claim 1."""
    return rng.exponential(mean, shape)


def gamma(rng: np.random.Generator, shape: Shape, *, order: float, mean: float = 1.0) -> StepTimes:
    """Independent Gamma(order) with the mean kept: the variance is mean² / order."""
    return rng.gamma(order, mean / order, shape)


def bursts(
    rng: np.random.Generator,
    shape: Shape,
    *,
    burst_steps: float,
    fast: float = 1.0,
    slow: float = 10.0,
    slow_share: float = 0.1,
) -> StepTimes:
    """Two-state Markov chain, stationary: slow for `burst_steps` on average, `slow_share` of steps.

    A slow step is followed by a fast one with probability 1 / L, a fast one by a slow one with
    probability s / ((1 − s) L).
    """
    leave, enter = burst_probabilities(burst_steps, slow_share)
    is_slow = rng.random(shape[1:]) < slow_share
    times = np.empty(shape)
    for t in range(shape[0]):
        times[t] = np.where(is_slow, slow, fast)
        is_slow = rng.random(shape[1:]) < np.where(is_slow, 1 - leave, enter)
    return times


def burst_probabilities(burst_steps: float, slow_share: float) -> tuple[float, float]:
    """P(fast | slow) and P(slow | fast) of the chain behind `bursts`."""
    if not 0 < slow_share < 1 or burst_steps * (1 - slow_share) < max(1 - slow_share, slow_share):
        raise ValueError(f"no chain is slow {slow_share} of the time for {burst_steps} steps each")
    return 1 / burst_steps, slow_share / (1 - slow_share) / burst_steps


def straggler(
    rng: np.random.Generator, shape: Shape, *, law: StepTimeLaw = constant, factor: float = 10.0
) -> StepTimes:
    """`law`, with environment 0 permanently `factor` times as slow."""
    times = law(rng, shape)
    times[:, 0] *= factor
    return times


def recorded(
    rng: np.random.Generator, shape: Shape, *, trace: Float[np.ndarray, " S"]
) -> StepTimes:
    """A measured trace in its own order, from a random place, repeated."""
    starts = rng.integers(len(trace), size=shape[1:])
    places = np.arange(shape[0])[:, None, None] + starts
    return trace.astype(np.float64)[places % len(trace)]
