"""Reward scaling by the running std of discounted returns, folded in a fixed order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64

from drumline.functional import moments
from drumline.types import Moments


class RewardScaling(NamedTuple):
    """Statistics carried from one interval to the next, in float64."""

    discounted_returns: Float64[np.ndarray, " B"]
    """Discounted return of each environment's running episode."""
    moments: Moments
    """Moments of all discounted returns so far; vectors of length 1."""


def initial_scaling(environments: int) -> RewardScaling:
    """Statistics before the first return; variance 1 with weight 1e-4, as in OpenAI's baselines."""
    return RewardScaling(np.zeros(environments), moments.initial_moments(1, pseudo_count=1e-4))


def fold(
    scaling: RewardScaling,
    rewards: Float[np.ndarray, "T B"],
    ended: Bool[np.ndarray, "T B"],
    gamma: float,
) -> RewardScaling:
    """Append one storage: G ← γG + r, seen, then 0 where `ended`.

    The moments are made per environment over t, then merged by environment index.
    """
    seen = np.empty(rewards.shape)
    running = scaling.discounted_returns.copy()
    for t in range(len(rewards)):
        running = gamma * running + rewards[t]
        seen[t] = running
        running[ended[t]] = 0.0
    merged = scaling.moments
    for own in _moments_of_columns(seen):
        merged = moments.merge(merged, own)
    return RewardScaling(running, merged)


def scaled(
    rewards: Float[np.ndarray, "T B"],
    scaling: RewardScaling,
    *,
    clip: float = 10.0,
    epsilon: float = 1e-8,
) -> Float32[np.ndarray, "T B"]:
    """r / (√Var(G) + ε), clipped to ±`clip`; the mean is not subtracted."""
    std = np.sqrt(scaling.moments.squares[0] / scaling.moments.count)
    return np.clip(rewards / (std + epsilon), -clip, clip).astype(np.float32)


def _moments_of_columns(rows: Float64[np.ndarray, "T B"]) -> Iterator[Moments]:
    """Moments of each column, added in the order of t, whatever the memory layout.

    `rows.sum(axis=0)` would not do: NumPy adds pairwise if a column is contiguous.
    """
    total = np.zeros(rows.shape[1])
    for row in rows:
        total = total + row
    mean = total / len(rows)
    squares = np.zeros(rows.shape[1])
    for row in rows:
        squares = squares + np.square(row - mean)
    for b in range(rows.shape[1]):
        yield Moments(float(len(rows)), mean[b : b + 1], squares[b : b + 1])
