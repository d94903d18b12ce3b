"""Moments of vectors by Chan's parallel algorithm, in float64, folded by index."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from jaxtyping import Float, Float64

from drumline.types import Moments

FOLD_BLOCK = 256
"""Parts pooled at a time, enough to outweigh NumPy's calls; it influences the bits."""


def initial_moments(size: int, pseudo_count: float = 1e-2) -> Moments:
    """Mean 0 and variance 1 with the weight of `pseudo_count` observations."""
    return Moments(pseudo_count, np.zeros(size), np.full(size, pseudo_count))


def moments_of(rows: Float[np.ndarray, "T D"]) -> Moments:
    """Count, mean and centred sum of squares of the rows."""
    rows = rows.astype(np.float64, copy=False)
    mean = rows.mean(axis=0)
    return Moments(float(len(rows)), mean, np.square(rows - mean).sum(axis=0))


def merge(left: Moments, right: Moments) -> Moments:
    """Moments of the concatenation (Chan, Golub & LeVeque 1983, eq. 2.1); order matters in bits."""
    count = left.count + right.count
    if count == 0:
        return left
    delta = right.mean - left.mean
    return Moments(
        count,
        left.mean + delta * (right.count / count),
        left.squares + right.squares + np.square(delta) * (left.count * right.count / count),
    )


def pooled(parts: Sequence[Moments]) -> Moments:
    """Moments of the concatenation of all parts at once: Σ s + Σ n (m − mean)², in their order."""
    counts = np.array([part.count for part in parts])
    count = float(counts.sum())
    if count == 0:
        return parts[0]
    weights = counts[:, None]
    means = _stacked([part.mean for part in parts])
    mean = (weights * means).sum(axis=0) / count
    within = _stacked([part.squares for part in parts]).sum(axis=0)
    return Moments(count, mean, within + (weights * np.square(means - mean)).sum(axis=0))


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays of one shape; `np.array` of them takes longer."""
    return np.concatenate(arrays, axis=None).reshape(len(arrays), *arrays[0].shape)


def fold(start: Moments, parts: Iterable[Moments]) -> Moments:
    """Merge `parts` into `start` in the order given: by index, never by arrival."""
    waiting = iter(parts)
    while block := list(islice(waiting, FOLD_BLOCK)):
        start = merge(start, pooled(block))
    return start


def inverse_std(moments: Moments, variance_floor: float = 1e-2) -> Float64[np.ndarray, " D"]:
    """1 / sqrt(max(variance, floor)); the reference floors the variance at 1e-2."""
    return 1.0 / np.sqrt(np.maximum(moments.squares / moments.count, variance_floor))


def inverse_std_unless_constant(
    moments: Moments, least_std: float = 1e-7
) -> Float64[np.ndarray, " D"]:
    """1 / std, and 0 where std < 1e-7: ARS's reference code removes constant features.

    1 before the first observation.
    """
    if moments.count == 0:
        return np.ones_like(moments.mean)
    std = np.sqrt(moments.squares / moments.count)
    return np.divide(1.0, std, out=np.zeros_like(std), where=std >= least_std)
