"""Actor-critic losses as sums over rows with an explicit divisor, and what is logged beside them.

`divisor` is the number of rows of the whole minibatch: the losses (and gradients, and metrics) of
its shards then add up to those of the whole. Losses are minimised; entropy is positive, in nats.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from drumline.functional.moments import moments_of
from drumline.functional.reductions import fixed_order_sum
from drumline.types import Moments


class A2CLoss(NamedTuple):
    """`loss` has a gradient, its parts have none."""

    loss: Float[Tensor, ""]
    policy_loss: Float[Tensor, ""]
    value_loss: Float[Tensor, ""]
    policy_entropy_nats: Float[Tensor, ""]


def a2c_loss(
    log_probs: Float[Tensor, " N"],
    entropies: Float[Tensor, " N"],
    values: Float[Tensor, " N"],
    advantages: Float[Tensor, " N"],
    returns: Float[Tensor, " N"],
    *,
    value_coefficient: float,
    entropy_coefficient: float,
    divisor: int,
) -> A2CLoss:
    """−A log π + c_v ½(V − R)² − c_H H (Mnih et al. 2016, section 4), summed, over `divisor`.

    An importance weight goes into `advantages`.
    """
    policy_loss = fixed_order_sum(-advantages * log_probs) / divisor
    value_loss = fixed_order_sum(0.5 * (values - returns).square()) / divisor
    entropy = fixed_order_sum(entropies) / divisor
    loss = policy_loss + value_coefficient * value_loss - entropy_coefficient * entropy
    return A2CLoss(loss, policy_loss.detach(), value_loss.detach(), entropy.detach())


class PPOLoss(NamedTuple):
    """`loss` has a gradient, its parts and the two measures of distance have none."""

    loss: Float[Tensor, ""]
    policy_loss: Float[Tensor, ""]
    value_loss: Float[Tensor, ""]
    policy_entropy_nats: Float[Tensor, ""]
    approximate_kl_nats: Float[Tensor, ""]
    clip_fraction: Float[Tensor, ""]
    """Share of rows whose ratio lies outside 1 ± clip."""


def ppo_loss(
    log_probs: Float[Tensor, " N"],
    behavior_log_probs: Float[Tensor, " N"],
    entropies: Float[Tensor, " N"],
    values: Float[Tensor, " N"],
    behavior_values: Float[Tensor, " N"],
    advantages: Float[Tensor, " N"],
    returns: Float[Tensor, " N"],
    *,
    clip: float | None,
    value_clip: float | None,
    value_coefficient: float,
    entropy_coefficient: float,
    divisor: int,
) -> PPOLoss:
    """PPO (Schulman et al. 2017, eqs. 7 and 9), summed, over `divisor`; None means no clipping.

    The value loss is ½ max((V − R)², (V_old + clip(V − V_old) − R)²), as in OpenAI's baselines.
    """
    ratios = torch.exp(log_probs - behavior_log_probs)
    gains, outside = ratios * advantages, torch.zeros_like(ratios)
    if clip is not None:
        gains = torch.minimum(gains, ratios.clamp(1 - clip, 1 + clip) * advantages)
        outside = ((ratios - 1).abs() > clip).to(ratios.dtype)
    squares = (values - returns).square()
    if value_clip is not None:
        near = behavior_values + (values - behavior_values).clamp(-value_clip, value_clip)
        squares = torch.maximum(squares, (near - returns).square())
    policy_loss = fixed_order_sum(-gains) / divisor
    value_loss = fixed_order_sum(0.5 * squares) / divisor
    entropy = fixed_order_sum(entropies) / divisor
    distances = kl_estimates(log_probs, behavior_log_probs).detach()
    return PPOLoss(
        policy_loss + value_coefficient * value_loss - entropy_coefficient * entropy,
        policy_loss.detach(),
        value_loss.detach(),
        entropy.detach(),
        fixed_order_sum(distances) / divisor,
        fixed_order_sum(outside) / divisor,
    )


def kl_estimates(
    log_probs: Float[Tensor, " N"], behavior_log_probs: Float[Tensor, " N"]
) -> Float[Tensor, " N"]:
    """(r − 1) − log r: unbiased for KL(μ‖π) under actions of μ, never below 0 (Schulman's k3)."""
    log_ratios = log_probs - behavior_log_probs
    return torch.expm1(log_ratios) - log_ratios


def scalar_moments(values: Float[Tensor, " N"]) -> Moments:
    """Moments of numbers, in float64: what shards exchange, to be folded in shard order."""
    return moments_of(values.detach().double()[:, None].numpy())


def normalized(
    advantages: Float[Tensor, " N"], moments: Moments | None = None, *, epsilon: float = 1e-8
) -> Float[Tensor, " N"]:
    """(A − mean) / (std + ε), population std; `moments` is of the whole minibatch for a shard."""
    moments = scalar_moments(advantages) if moments is None else moments
    std = math.sqrt(moments.squares[0] / moments.count)
    return (advantages - float(moments.mean[0])) / (std + epsilon)


def explained_variance(values: Float[Tensor, " N"], returns: Float[Tensor, " N"]) -> float:
    """1 − Var(R − V) / Var(R): 1 is perfect, 0 a constant's, nan where the returns are all one."""
    spread = float(scalar_moments(returns).squares[0])
    return 1 - float(scalar_moments(returns - values).squares[0]) / spread if spread else math.nan
