"""Scaling rewards by the running spread of discounted returns, in float64."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float64

from drumline.functional.moments import merge, moments_of
from drumline.types import Moments


class RewardScale(NamedTuple):
    """Each environment's discounted return so far, and the moments of all of them."""

    returns: Float64[np.ndarray, " B"]
    moments: Moments


def initial_scale(environments: int) -> RewardScale:
    """Nothing seen; variance 1 with the weight of a hundredth of an observation."""
    nothing = Moments(1e-2, np.zeros(1), np.full(1, 1e-2))
    return RewardScale(np.zeros(environments), nothing)


def folded(
    scale: RewardScale,
    rewards: Float[np.ndarray, "T B"],
    ended: Bool[np.ndarray, "T B"],
    discount: float,
) -> RewardScale:
    """Return the scale after an interval: R_t = γ R_{t−1} + r_t, started anew after each end.

    Moments are folded per environment over t, then environments by index.
    """
    returns = scale.returns.copy()
    seen = np.empty(rewards.shape, np.float64)
    for t in range(len(rewards)):
        returns = returns * discount + rewards[t]
        seen[t] = returns
        returns = np.where(ended[t], 0.0, returns)
    moments = scale.moments
    for environment in range(rewards.shape[1]):
        moments = merge(moments, moments_of(np.ascontiguousarray(seen[:, environment, None])))
    return RewardScale(returns, moments)


def scaled(
    scale: RewardScale, rewards: Float[np.ndarray, "T B"], *, clip: float = 10.0, eps: float = 1e-8
) -> Float[np.ndarray, "T B"]:
    """Return rewards over the std of discounted returns, clipped, in float32."""
    variance = float(scale.moments.squares[0] / scale.moments.count)
    return np.clip(rewards / np.sqrt(variance + eps), -clip, clip).astype(np.float32)
