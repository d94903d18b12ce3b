"""Step sizes p of the mean, μ ← (1 − p) μ + p z, as functions of both fitnesses.

Lee et al. 2020 (arXiv 2012.05417). `fitness` is the individual's, `mean_fitness` that of μ. Fix a
rule's numbers with `functools.partial`. The rank rules move μ to the best of an archive instead.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float32, Float64, Int

StepSize = Callable[[float, float], float]
"""(fitness, mean_fitness) → p; below 0 moves away from the individual."""


def full_move(fitness: float, mean_fitness: float) -> float:
    """p = [f_z > f_μ], the (1+1)-ES: the mean becomes the individual that beats it."""
    return 1.0 if fitness > mean_fitness else 0.0


def fixed_linear(
    fitness: float, mean_fitness: float, *, fitness_range: float, negative_ratio: float = 0.0
) -> float:
    """p = clip(d / r, −1, 1), times `negative_ratio` where d = f_z − f_μ < 0."""
    _refuse_range(fitness_range)
    if not 0.0 <= negative_ratio <= 1.0:
        raise ValueError(f"negative_ratio must be 0 to 1, got {negative_ratio}")
    step_size = min(max((fitness - mean_fitness) / fitness_range, -1.0), 1.0)
    return step_size * negative_ratio if step_size < 0.0 else step_size


def fixed_sigmoid(fitness: float, mean_fitness: float, *, fitness_range: float) -> float:
    """p = 1 / (1 + exp(−d / r)): ½ at equal fitness, never below 0."""
    _refuse_range(fitness_range)
    scaled = (fitness - mean_fitness) / fitness_range
    smaller = math.exp(-abs(scaled))  # this form of the exponential cannot overflow
    return (1.0 if scaled >= 0.0 else smaller) / (1.0 + smaller)


def absolute_baseline(fitness: float, mean_fitness: float, *, baseline: float) -> float:
    """p = (f_z − b) / ((f_z − b) + (f_μ − b)), 0 where f_z ≤ b.

    A mean below b counts as b, so that p is 1 there; the release's quotient turns negative.
    """
    return _share(fitness - baseline, mean_fitness - baseline)


def relative_baseline(fitness: float, mean_fitness: float, *, fitness_range: float) -> float:
    """The same with b = f_μ − r: p = (d + r) / (d + 2r), 0 where d = f_z − f_μ ≤ −r."""
    _refuse_range(fitness_range)
    return _share(fitness - mean_fitness + fitness_range, fitness_range)


def moved_mean(
    mean: Float32[np.ndarray, " P"], target: Float32[np.ndarray, " P"], step_size: float
) -> Float32[np.ndarray, " P"]:
    """(1 − p) μ + p z; p = 0 is μ and p = 1 is z, bit for bit."""
    if step_size == 0.0:
        return mean.copy()
    moved = np.multiply(target, np.float32(step_size))
    if step_size != 1.0:
        moved += mean * np.float32(1.0 - step_size)
    return moved


def cem_weights(elites: int) -> Float64[np.ndarray, " K"]:
    """w_i ∝ ln((K + 1) / i) for i = 1 … K, sum 1 (Pourchot & Sigaud 2019, §3.1)."""
    if elites < 1:
        raise ValueError(f"elites must be at least 1, got {elites}")
    weights = np.log((elites + 1) / np.arange(1, elites + 1))
    return weights / weights.sum()


def best_first(fitness: Float64[np.ndarray, " N"], count: int) -> Int[np.ndarray, " K"]:
    """Return the places of the `count` fittest, best first; ties keep the lower place first."""
    if not 1 <= count <= fitness.size:
        raise ValueError(f"elites must be 1 to {fitness.size}, got {count}")
    return np.argsort(-fitness, kind="stable")[:count]


def weighted_mean(
    vectors: Sequence[Float32[np.ndarray, " P"]], weights: Float64[np.ndarray, " K"]
) -> Float32[np.ndarray, " P"]:
    """Σ w_i z_i in the order given."""
    total = np.zeros_like(vectors[0])
    for vector, weight in zip(vectors, weights.tolist(), strict=True):
        total += vector * np.float32(weight)
    return total


def _share(gain: float, other: float) -> float:
    return gain / (gain + max(other, 0.0)) if gain > 0.0 else 0.0


def _refuse_range(fitness_range: float) -> None:
    if not fitness_range > 0.0:
        raise ValueError(f"fitness_range must be above 0, got {fitness_range}")
