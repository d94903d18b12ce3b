"""Losses of actor-critic learning as sums over rows divided by a given number of rows.

So the losses of parts of a minibatch add up to the loss of the whole: shards are learned from
apart and their gradients are added.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Loss(NamedTuple):
    """A loss to differentiate, and sums over its rows to report (divide by the rows)."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    kl: Tensor
    """Schulman's estimator (ratio − 1) − log ratio of KL(behaviour, current)."""
    clipped: Tensor
    """Rows whose ratio lies outside the clip range."""


def a2c_loss(
    log_probs: Float[Tensor, " N"],
    advantages: Float[Tensor, " N"],
    values: Float[Tensor, " N"],
    targets: Float[Tensor, " N"],
    entropy: Float[Tensor, " N"],
    behavior_log_probs: Float[Tensor, " N"],
    *,
    value_coefficient: float,
    entropy_coefficient: float,
    rows: int,
) -> Loss:
    """Advantage actor-critic (Mnih et al. 2016): −log π · A + c_v (R − V)² / 2 − c_e H."""
    policy = -(log_probs * advantages).sum()
    value = 0.5 * (targets - values).square().sum()
    bonus = entropy.sum()
    total = (policy + value_coefficient * value - entropy_coefficient * bonus) / rows
    kl, _ = _distance(log_probs, behavior_log_probs)
    nothing = torch.zeros(())
    return Loss(total, policy.detach(), value.detach(), bonus.detach(), kl, nothing)


def ppo_loss(
    log_probs: Float[Tensor, " N"],
    advantages: Float[Tensor, " N"],
    values: Float[Tensor, " N"],
    targets: Float[Tensor, " N"],
    entropy: Float[Tensor, " N"],
    behavior_log_probs: Float[Tensor, " N"],
    behavior_values: Float[Tensor, " N"],
    *,
    clip: float,
    value_clip: float | None,
    value_coefficient: float,
    entropy_coefficient: float,
    rows: int,
) -> Loss:
    """Clipped surrogate (Schulman et al. 2017, eq. 7 and 9), value loss clipped alike if asked."""
    ratios = (log_probs - behavior_log_probs).exp()
    bounded = ratios.clamp(1.0 - clip, 1.0 + clip)
    policy = -torch.minimum(ratios * advantages, bounded * advantages).sum()
    errors = (values - targets).square()
    if value_clip is not None:
        near = behavior_values + (values - behavior_values).clamp(-value_clip, value_clip)
        errors = torch.maximum(errors, (near - targets).square())
    value = 0.5 * errors.sum()
    bonus = entropy.sum()
    total = (policy + value_coefficient * value - entropy_coefficient * bonus) / rows
    kl, ratios = _distance(log_probs, behavior_log_probs)
    clipped = ((ratios - 1.0).abs() > clip).sum()
    return Loss(total, policy.detach(), value.detach(), bonus.detach(), kl, clipped)


def normalized(advantages: Tensor, eps: float = 1e-8) -> Tensor:
    """Return advantages with mean 0 and (population) std 1."""
    centred = advantages - advantages.mean()
    return centred / (centred.square().mean().sqrt() + eps)


def explained_variance(values: Tensor, targets: Tensor) -> float:
    """Return 1 − Var(target − value) / Var(target): 1 is perfect, 0 no better than a constant."""
    spread = targets.var(correction=0)
    if spread == 0:
        return 0.0
    return float(1.0 - (targets - values).var(correction=0) / spread)


@torch.no_grad()
def _distance(log_probs: Tensor, behavior: Tensor) -> tuple[Tensor, Tensor]:
    difference = log_probs.detach() - behavior
    ratios = difference.exp()
    return (ratios - 1.0 - difference).sum(), ratios
