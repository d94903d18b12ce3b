"""Fitness shaping: returns of a generation to weights of its members."""

import numpy as np
from jaxtyping import Float

_SMALLEST_STD = 1e-150
"""Std whose square is still far from the end of float64."""


def centered_ranks(
    fitness: Float[np.ndarray, " N"], *, tie_tolerance: float = 0.0
) -> Float[np.ndarray, " N"]:
    """u = rank / (N − 1) − ½, ranks joint over both signs; ties share the mean of their ranks.

    Salimans et al. 2017, §2.1. The reference breaks ties arbitrarily, so that equal returns move
    its parameters (docs/adr/0003). All weights are exactly 0 if all returns are equal. Neighbours
    in rank are ties, too, if they differ by at most `tie_tolerance` · max |F| (ours).

    >>> centered_ranks(np.array([9359.2, 80.0, 9359.9]), tie_tolerance=0.001)
    array([ 0.25, -0.5 ,  0.25])
    """
    count = fitness.size
    if count < 2:
        return np.zeros(count)
    values, inverse, sizes = np.unique(fitness, return_inverse=True, return_counts=True)
    if tie_tolerance:
        apart = np.diff(values) > tie_tolerance * np.abs(values).max()
        group = np.concatenate([[0], np.cumsum(apart)])
        inverse, sizes = group[inverse], np.bincount(group, weights=sizes).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    # Twice the mean rank is an integer, so tied members get equal bits and constant fitness 0.
    doubled = 2 * first + sizes - 1
    return (doubled[inverse] - (count - 1)) / (2.0 * (count - 1))


def z_scores(fitness: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """(F − mean) / std; zeros when all returns are equal."""
    if np.all(fitness == fitness[0]):
        return np.zeros(fitness.size)
    scaled = fitness / spread_scale(fitness)
    centered = scaled - scaled.mean()
    return centered / centered.std()


def spread_scale(values: Float[np.ndarray, " N"]) -> float:
    """Divisor that keeps squares within float64: 1 for all but tiny and huge values.

    >>> spread_scale(np.array([1.0, 2.0])), spread_scale(np.array([0.0, -3e-170]))
    (1.0, 3e-170)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        std = values.std()
    return 1.0 if _SMALLEST_STD < std < np.inf else float(np.abs(values).max())


def unshaped(fitness: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """F itself: the plain estimator of Algorithm 1."""
    return fitness.astype(np.float64)
