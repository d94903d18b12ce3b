"""Optimiser steps that descend on one flat vector, in place; for learners.

Both run torch's fused Adam kernel: one pass over memory, 3 to 8 times faster than separate
operations at 1.7 million parameters, with the same bits for any thread count (tested).
"""

import math
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

from drumline.functional.reductions import euclidean_norm

_fused_adam: Any = getattr(torch, "_fused_adam_")  # noqa: B009 - private and untyped


def adam_step_(
    parameters: Float32[Tensor, " P"],
    gradient: Float32[Tensor, " P"],
    first: Float32[Tensor, " P"],
    second: Float32[Tensor, " P"],
    count: int,
    *,
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-5,
) -> None:
    """Adam (Kingma & Ba 2015, Algorithm 1), ε added to √v̂; `count` is 1 at the first step.

    ε is PPO's 1e-5, not Adam's own 1e-8.
    """
    if count < 1:
        raise ValueError(f"count is 1 at the first step, got {count}")
    _fused(
        parameters, gradient, first, second, float(count - 1), learning_rate, beta1, beta2, epsilon
    )


def rmsprop_step_(
    parameters: Float32[Tensor, " P"],
    gradient: Float32[Tensor, " P"],
    second: Float32[Tensor, " P"],
    *,
    learning_rate: float,
    alpha: float = 0.99,
    epsilon: float = 1e-5,
) -> None:
    """RMSProp: v ← αv + (1 − α)g²; θ ← θ − ηg / (√v + ε), ε outside the root as in torch's.

    (TensorFlow has ε inside, and starts v at 1.)
    """
    # RMSProp is Adam with β1 = 0, so that the gradient is its own first moment, after infinitely
    # many steps, when the bias correction is 1.
    _fused(parameters, gradient, gradient, second, math.inf, learning_rate, 0.0, alpha, epsilon)


def clip_by_global_norm_(gradient: Float32[Tensor, " P"], max_norm: float) -> float:
    """Scale the gradient to `max_norm` if it is longer; return its norm before.

    A norm that is not finite makes every element nan: check the returned norm before the step. The
    norm is added up in fixed blocks, so its bits do not depend on the thread count.
    """
    norm = euclidean_norm(gradient)
    if not norm <= max_norm:
        gradient.mul_(max_norm / norm if math.isfinite(norm) else math.nan)
    return norm


def _fused(
    parameters: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    steps_before: float,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    with torch.no_grad():
        # Calls the kernel directly: torch's wrapper costs 30 µs a step, as much as 64 rows.
        _fused_adam(
            [parameters],
            [gradient],
            [first],
            [second],
            [],
            [torch.full((), steps_before + 1.0, device=parameters.device)],
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            weight_decay=0.0,
            eps=epsilon,
            amsgrad=False,
            maximize=False,
        )
