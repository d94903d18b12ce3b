"""Gradient steps on one flat float32 vector, in place; for learners, in torch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import torch
from torch import Tensor


def clip_by_global_norm(gradient: Tensor, max_norm: float) -> Tensor:
    """Scale the gradient in place to at most `max_norm`; returns its norm before."""
    norm = torch.linalg.vector_norm(gradient)
    gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def adam(
    parameters: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    step: int,
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-5,
) -> None:
    """Adam (Kingma & Ba 2015, algorithm 1), downhill; `step` counts from 1."""
    first.lerp_(gradient, 1.0 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
    size = learning_rate / (1.0 - beta1**step)
    correction = (1.0 - beta2**step) ** 0.5
    parameters.addcdiv_(first, (second.sqrt() / correction).add_(eps), value=-size)


def rmsprop(
    parameters: Tensor,
    gradient: Tensor,
    second: Tensor,
    *,
    learning_rate: float,
    decay: float = 0.99,
    eps: float = 1e-5,
) -> None:
    """RMSProp without momentum (Tieleman & Hinton 2012), downhill; ε outside the root."""
    second.mul_(decay).addcmul_(gradient, gradient, value=1.0 - decay)
    parameters.addcdiv_(gradient, second.sqrt().add_(eps), value=-learning_rate)
