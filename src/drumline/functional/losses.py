"""Actor-critic losses with their derivatives, in NumPy: each is written once, for every network.

A loss is a sum over rows, divided by `divisor`, the number of rows of the whole minibatch. The
terms of its shards and microbatches therefore add up to those of the whole. Losses are minimised;
entropy is positive, in nats.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from drumline.functional.moments import moments_of

Vector = Float32[np.ndarray, " N"]


class LossRows(NamedTuple):
    """Rows of a loss: the network's present values, and the values to compare them with."""

    log_probs: Vector
    """log π(a|x) of the taken actions, in nats."""
    old_log_probs: Vector
    """Denominators of the ratios: of the policy that acted, or of θ_k (`truncated-is`)."""
    entropies: Vector
    """H(π(·|x)), in nats."""
    values: Vector
    """V(x)."""
    old_values: Vector
    """V(x) before the update."""
    advantages: Vector
    """A, normalised and corrected as asked."""
    returns: Vector
    """R, the targets of V."""


class LossTerms(NamedTuple):
    """Metrics of a loss, and its derivatives by the rows' log-probabilities, values, entropies."""

    metrics: dict[str, float]
    """Sums over the rows, divided by `divisor`: columns of metrics.csv."""
    d_log_probs: Vector
    d_values: Vector
    d_entropies: Vector | np.float32
    """One number if it is the same for all rows."""


Loss = Callable[[LossRows, int], LossTerms]
"""(rows, divisor) → terms. A pure function, called on several threads at once."""

LossOfInterval = Callable[[int], Loss]
"""Interval → the loss of its data, with the coefficients that the interval has."""

Baseline = Literal["critic", "none"]
"""V of a critic in A2C's advantages and returns, or neither: REINFORCE (Williams 1992)."""


def ppo_loss(
    rows: LossRows,
    divisor: int,
    *,
    clip: float,
    value_clip: float | None,
    value_coefficient: float,
    entropy_coefficient: float,
) -> LossTerms:
    """PPO (Schulman et al. 2017, eqs. 7 and 9): L = −min(rA, clip(r)A) + c_v ½(V − R)² − c_H H.

    By the log-probability: −rA/N where the unclipped term is the smaller one, else 0. With
    `value_clip` the value loss is ½ max((V − R)², (V_old + clip(V − V_old) − R)²), as in OpenAI's
    baselines. The metric `clip_fraction` is the share of rows whose ratio lies outside 1 ± clip.
    """
    ratios = np.exp(rows.log_probs - rows.old_log_probs)
    gains = ratios * rows.advantages
    clipped = np.minimum(np.maximum(ratios, np.float32(1 - clip)), np.float32(1 + clip))
    clipped *= rows.advantages
    moves = ~(gains > clipped)  # true for NaN, which shows in the gradient
    outside = np.abs(ratios - np.float32(1.0)) > np.float32(clip)
    errors = rows.values - rows.returns
    d_values = errors
    squares = errors * errors
    if value_clip is not None:
        apart = rows.values - rows.old_values
        near = rows.old_values + np.clip(apart, np.float32(-value_clip), np.float32(value_clip))
        near_errors = near - rows.returns
        near_squares = near_errors * near_errors
        inside = np.abs(apart) <= np.float32(value_clip)
        d_values = np.where(
            squares < near_squares, np.where(inside, near_errors, np.float32(0.0)), errors
        )
        squares = np.maximum(squares, near_squares)
    share = np.float32(1.0 / divisor)
    return LossTerms(
        {
            "policy_loss": -float(np.add.reduce(np.minimum(gains, clipped))) / divisor,
            "value_loss": 0.5 * float(np.add.reduce(squares)) / divisor,
            "clip_fraction": int(np.count_nonzero(outside)) / divisor,
        },
        d_log_probs=np.where(moves, gains * -share, np.float32(0.0)),
        d_values=d_values * np.float32(value_coefficient / divisor),
        d_entropies=np.float32(-entropy_coefficient / divisor),
    )


def a2c_loss(
    rows: LossRows, divisor: int, *, value_coefficient: float, entropy_coefficient: float
) -> LossTerms:
    """L = −A log π + c_v ½(V − R)² − c_H H (Mnih et al. 2016, section 4).

    An importance weight goes into `advantages`.
    """
    errors = rows.values - rows.returns
    return LossTerms(
        {
            "policy_loss": -float(np.add.reduce(rows.advantages * rows.log_probs)) / divisor,
            "value_loss": 0.5 * float(np.add.reduce(errors * errors)) / divisor,
        },
        d_log_probs=rows.advantages * np.float32(-1.0 / divisor),
        d_values=errors * np.float32(value_coefficient / divisor),
        d_entropies=np.float32(-entropy_coefficient / divisor),
    )


def reinforce_loss(rows: LossRows, divisor: int, *, entropy_coefficient: float) -> LossTerms:
    """L = −R log π − c_H H (Williams 1992): values are neither used nor learned.

    `advantages` holds R, weighted as asked.
    """
    return LossTerms(
        {"policy_loss": -float(np.add.reduce(rows.advantages * rows.log_probs)) / divisor},
        d_log_probs=rows.advantages * np.float32(-1.0 / divisor),
        d_values=np.zeros_like(rows.values),
        d_entropies=np.float32(-entropy_coefficient / divisor),
    )


def kl_estimates(
    log_probs: Float[np.ndarray, " N"], old_log_probs: Float[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """(r − 1) − log r: unbiased for KL(μ‖π) under actions of μ, never below 0 (Schulman's k3).

    With a lag the old policy is not the one that acted, so there it is 0 at equality alone.
    """
    log_ratios = log_probs - old_log_probs
    return np.expm1(log_ratios) - log_ratios


def standardized(advantages: Vector, *, epsilon: float = 1e-8) -> Vector:
    """(A − mean) / (std + ε), population std, both in float64."""
    exact = advantages.astype(np.float64)
    exact -= np.add.reduce(exact) / len(exact)
    std = math.sqrt(float(exact @ exact) / len(exact))
    exact /= std + epsilon
    return exact.astype(np.float32)


def explained_variance(values: Float[np.ndarray, " N"], returns: Float[np.ndarray, " N"]) -> float:
    """1 − Var(R − V) / Var(R): 1 is perfect, 0 a constant's, nan where the returns are all one."""
    spread = _squares(returns)
    return 1 - _squares(returns - values) / spread if spread else math.nan


def _squares(numbers: np.ndarray) -> float:
    """Sum of squared distances from the mean, in float64."""
    return float(moments_of(numbers[:, None]).squares[0])
