"""Critic targets of TD3 (Fujimoto et al. 2018): clipped double Q and target smoothing."""

import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor


def smoothed_actions(
    actions: Float32[Tensor, "*B A"],
    noise: Float32[Tensor, "*B A"],
    low: Float32[Tensor, " A"],
    high: Float32[Tensor, " A"],
) -> Float32[Tensor, "*B A"]:
    """ã = clip(π(s′) + ε, low, high) (eq. 14); ε must be clipped before."""
    return torch.clamp(actions + noise, low, high)


def pessimistic_values(values: Float32[Tensor, "K B A"]) -> Float32[Tensor, "B A"]:
    """min over the critics (eq. 10)."""
    return values.amin(0)


def expected_values(
    probabilities: Float32[Tensor, "*B A"], values: Float32[Tensor, "*B A"]
) -> Float32[Tensor, "*B"]:
    """V(s) = Σ_a π(a|s) Q(s, a), of a policy over discrete actions."""
    return (probabilities * values).sum(-1)


def one_step_targets(
    rewards: Float32[Tensor, " B"],
    terminated: Bool[Tensor, " B"],
    next_values: Float32[Tensor, " B"],
    discount: float,
) -> Float32[Tensor, " B"]:
    """y = r + γ V(s′), and y = r after a termination (not after a truncation)."""
    return rewards + discount * next_values.masked_fill(terminated, 0.0)


def squared_error_gradient(
    values: Float32[Tensor, "K B"], targets: Float32[Tensor, " B"]
) -> tuple[Float32[Tensor, "K B"], Float[Tensor, ""]]:
    """Σ_k mean (Q_k − y)² and its gradient 2 (Q_k − y) / B; the gradient first."""
    errors = values - targets
    loss = errors.square().mean(1).sum()
    return errors.mul_(2.0 / values.shape[1]), loss
