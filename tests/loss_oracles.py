"""Actor-critic losses in torch, in the papers' notation, for autograd to differentiate."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from drumline.policies.actions import ActionHead


class Rows(NamedTuple):
    """Inputs of a loss, in the order of `losses.LossRows`."""

    log_probs: Tensor
    old_log_probs: Tensor
    entropies: Tensor
    values: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor


class Parts(NamedTuple):
    """A loss with a gradient, and its parts."""

    loss: Tensor
    policy_loss: Tensor
    value_loss: Tensor


def a2c_loss(
    rows: Rows, divisor: int, *, value_coefficient: float, entropy_coefficient: float
) -> Parts:
    """−A log π + c_v ½(V − R)² − c_H H (Mnih et al. 2016, section 4)."""
    policy = -(rows.advantages * rows.log_probs).sum() / divisor
    value = (0.5 * (rows.values - rows.returns).square()).sum() / divisor
    bonus = entropy_coefficient * rows.entropies.sum() / divisor
    return Parts(policy + value_coefficient * value - bonus, policy, value)


def ppo_loss(
    rows: Rows,
    divisor: int,
    *,
    clip: float,
    value_clip: float | None,
    value_coefficient: float,
    entropy_coefficient: float,
) -> Parts:
    """PPO (Schulman et al. 2017, eqs. 7 and 9), the values clipped as in OpenAI's baselines."""
    ratios = torch.exp(rows.log_probs - rows.old_log_probs)
    gains = torch.minimum(
        ratios * rows.advantages, ratios.clamp(1 - clip, 1 + clip) * rows.advantages
    )
    squares = (rows.values - rows.returns).square()
    if value_clip is not None:
        moved = (rows.values - rows.old_values).clamp(-value_clip, value_clip)
        squares = torch.maximum(squares, (rows.old_values + moved - rows.returns).square())
    policy, value = -gains.sum() / divisor, 0.5 * squares.sum() / divisor
    bonus = entropy_coefficient * rows.entropies.sum() / divisor
    return Parts(policy + value_coefficient * value - bonus, policy, value)


def log_prob_and_entropy(
    head: ActionHead, outputs: Tensor, actions: Tensor
) -> tuple[Tensor, Tensor]:
    """log π(a|s) `[N]` and the entropy in nats `[N]`, by torch.distributions."""
    if head.kind == "gaussian":
        mean, log_std = outputs.split(head.sizes[0], dim=1)
        law = Independent(Normal(mean, log_std.exp()), 1)
        return law.log_prob(actions), law.entropy()
    chosen = actions.reshape(len(actions), -1).unbind(1)
    laws = [Categorical(logits=logits) for logits in outputs.split(head.sizes, dim=1)]
    log_probs = [law.log_prob(action) for law, action in zip(laws, chosen, strict=True)]
    return torch.stack(log_probs).sum(0), torch.stack([law.entropy() for law in laws]).sum(0)
