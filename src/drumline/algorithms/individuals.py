"""Steps of every steady-state strategy: drawing candidates, and telling individuals one by one."""

import math
from collections.abc import Callable, Sequence
from typing import SupportsFloat

import numpy as np
from jaxtyping import Float32

from drumline.functional.perturbation import ReadNoise
from drumline.types import Candidate, Individual, Metrics


def gaussian_vector(
    read: ReadNoise,
    noise_key: int,
    mean: Float32[np.ndarray, " P"],
    std: Float32[np.ndarray, " P"],
    sign: int = 1,
) -> Float32[np.ndarray, " P"]:
    """μ ± σ ε with the noise named by its key."""
    vector = np.empty_like(mean)
    noise = read(noise_key, 0, mean.size, vector)
    np.multiply(noise, std, out=vector)
    return np.add(mean, vector, out=vector) if sign > 0 else np.subtract(mean, vector, out=vector)


def live(
    candidate: Candidate, fitness: SupportsFloat, mean_fitness: SupportsFloat | None = None
) -> Individual:
    """Return the individual of a candidate that was evaluated unchanged.

    >>> live(Candidate(3, 0, np.zeros(2, np.float32)), 1.5).index
    3
    """
    beside = None if mean_fitness is None else float(mean_fitness)
    return Individual(candidate.index, candidate.version, candidate.vector, float(fitness), beside)


_OWN = frozenset(
    (
        *("fitness", "mean_fitness", "improvement_over_mean", "staleness_tells"),
        *("step_size", "accepted", "trust_region_share"),
    )
)
"""Metrics of an individual, which are averaged; others describe the distribution."""


def tell_each(
    tell_one: Callable[[Individual], Metrics],
    individuals: Sequence[Individual],
    parameter_count: int,
) -> Metrics:
    """Tell individuals in the order given; return metrics.

    Metrics of individuals are means. The moved distance is the length of the whole way. Metrics of
    the distribution are the newest.
    """
    if not individuals:
        raise ValueError("tell needs at least one individual")
    for individual in individuals:
        _refuse_unusable(individual, parameter_count)
    rows = [tell_one(individual) for individual in individuals]
    own = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if name in _OWN}
    return {**rows[-1], **own, "update_norm": sum(row["update_norm"] for row in rows)}


def staleness(individual: Individual, tells: int) -> int:
    """Return the number of individuals told between this one's ask and its tell."""
    if not 0 <= individual.version <= tells:
        raise ValueError(
            f"individual {individual.index} says it was asked after {individual.version} tells; "
            f"there have been {tells}"
        )
    return tells - individual.version


def norm(vector: Float32[np.ndarray, " P"]) -> float:
    """√Σx² in float64, added in a fixed order, which BLAS on several threads does not keep."""
    return math.sqrt(float(np.sum(np.square(vector), dtype=np.float64)))


def variance_summary(variance: Float32[np.ndarray, " P"]) -> Metrics:
    """Mean, smallest and largest variance, σ = √ of the mean, and largest over smallest."""
    mean, least, most = float(np.mean(variance, dtype=np.float64)), variance.min(), variance.max()
    return {
        "variance_mean": mean,
        "variance_min": float(least),
        "variance_max": float(most),
        "sampling_std": math.sqrt(mean),
        "condition_number": float(most) / float(least) if least > 0.0 else math.inf,
    }


def _refuse_unusable(individual: Individual, parameter_count: int) -> None:
    named = f"individual {individual.index}"
    if individual.vector.shape != (parameter_count,):
        raise ValueError(
            f"{named} has parameters of shape {list(individual.vector.shape)}, "
            f"expected [{parameter_count}]"
        )
    bad = int(np.count_nonzero(~np.isfinite(individual.vector)))
    if bad:
        raise ValueError(f"{named} has {bad} parameters that are not finite")
    if not math.isfinite(individual.fitness):
        raise ValueError(f"the fitness of {named} is {individual.fitness}")
    if individual.mean_fitness is not None and not math.isfinite(individual.mean_fitness):
        raise ValueError(f"the mean's fitness beside {named} is {individual.mean_fitness}")
