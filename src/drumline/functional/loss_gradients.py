"""Actor-critic losses in NumPy with their derivatives; the formulas are those of `losses`.

Sums over rows with an explicit divisor, so that shards add up to their whole.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

Vector = Float32[np.ndarray, " N"]


class LossTerms(NamedTuple):
    """The parts of a loss, how far the policy has moved, and the loss's derivatives by row."""

    policy_loss: float
    value_loss: float
    policy_entropy_nats: float
    approximate_kl_nats: float
    clip_fraction: float
    d_log_probs: Vector
    d_values: Vector
    d_entropy: np.float32
    """By each row's entropy: the same for all."""


def ppo_loss_terms(
    log_probs: Vector,
    behavior_log_probs: Vector,
    entropies: Vector,
    values: Vector,
    behavior_values: Vector,
    advantages: Vector,
    returns: Vector,
    *,
    clip: float,
    value_clip: float | None,
    value_coefficient: float,
    entropy_coefficient: float,
    divisor: int,
) -> LossTerms:
    """PPO (Schulman et al. 2017, eqs. 7 and 9): L = −min(rA, clip(r)A) + c_v ½(V − R)² − c_H H.

    By the log-probability: −rA/N where the unclipped term is the smaller one, else 0.
    """
    log_ratios = log_probs - behavior_log_probs
    ratios = np.exp(log_ratios)
    gains = ratios * advantages
    clipped = np.minimum(np.maximum(ratios, np.float32(1 - clip)), np.float32(1 + clip))
    clipped *= advantages
    moves = ~(gains > clipped)  # a NaN moves too, and is found in the gradient
    outside = np.abs(ratios - np.float32(1.0)) > np.float32(clip)
    errors = values - returns
    d_values = errors
    squares = errors * errors
    if value_clip is not None:
        apart = values - behavior_values
        near = behavior_values + np.clip(apart, np.float32(-value_clip), np.float32(value_clip))
        near_errors = near - returns
        near_squares = near_errors * near_errors
        inside = np.abs(apart) <= np.float32(value_clip)
        d_values = np.where(
            squares < near_squares, np.where(inside, near_errors, np.float32(0.0)), errors
        )
        squares = np.maximum(squares, near_squares)
    share = np.float32(1.0 / divisor)
    distances = np.expm1(log_ratios) - log_ratios
    return LossTerms(
        policy_loss=-float(np.add.reduce(np.minimum(gains, clipped))) / divisor,
        value_loss=0.5 * float(np.add.reduce(squares)) / divisor,
        policy_entropy_nats=float(np.add.reduce(entropies)) / divisor,
        approximate_kl_nats=float(np.add.reduce(distances)) / divisor,
        clip_fraction=int(np.count_nonzero(outside)) / divisor,
        d_log_probs=np.where(moves, gains * -share, np.float32(0.0)),
        d_values=d_values * np.float32(value_coefficient / divisor),
        d_entropy=np.float32(-entropy_coefficient / divisor),
    )


def a2c_loss_terms(
    log_probs: Vector,
    behavior_log_probs: Vector,
    entropies: Vector,
    values: Vector,
    advantages: Vector,
    returns: Vector,
    *,
    value_coefficient: float,
    entropy_coefficient: float,
    divisor: int,
) -> LossTerms:
    """L = −A log π + c_v ½(V − R)² − c_H H (Mnih et al. 2016, section 4)."""
    errors = values - returns
    log_ratios = log_probs - behavior_log_probs
    distances = np.expm1(log_ratios) - log_ratios
    return LossTerms(
        policy_loss=-float(np.add.reduce(advantages * log_probs)) / divisor,
        value_loss=0.5 * float(np.add.reduce(errors * errors)) / divisor,
        policy_entropy_nats=float(np.add.reduce(entropies)) / divisor,
        approximate_kl_nats=float(np.add.reduce(distances)) / divisor,
        clip_fraction=0.0,
        d_log_probs=advantages * np.float32(-1.0 / divisor),
        d_values=errors * np.float32(value_coefficient / divisor),
        d_entropy=np.float32(-entropy_coefficient / divisor),
    )


def standardized(advantages: Vector, *, epsilon: float = 1e-8) -> Vector:
    """(A − mean) / (std + ε), population std, both in float64."""
    exact = advantages.astype(np.float64)
    exact -= np.add.reduce(exact) / len(exact)
    std = math.sqrt(float(exact @ exact) / len(exact))
    exact /= std + epsilon
    return exact.astype(np.float32)
