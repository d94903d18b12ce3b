"""Optimiser steps that ascend: arrays in, arrays out."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32


class AdamStep(NamedTuple):
    """New parameters and both moment estimates."""

    parameters: Float32[np.ndarray, " P"]
    first: Float32[np.ndarray, " P"]
    second: Float32[np.ndarray, " P"]


def adam_step(
    parameters: Float32[np.ndarray, " P"],
    ascent: Float32[np.ndarray, " P"],
    first: Float32[np.ndarray, " P"],
    second: Float32[np.ndarray, " P"],
    count: int,
    *,
    learning_rate: float,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> AdamStep:
    """Adam (Kingma & Ba 2015) on −g + λθ: coupled L2, not AdamW; `count` is 1 at the first step.

    Bias correction is part of the step size; ε is added to √v, as in the reference code of
    OpenAI-ES.
    """
    descent = np.float32(weight_decay) * parameters - ascent
    first = np.float32(beta1) * first + np.float32(1.0 - beta1) * descent
    second = np.float32(beta2) * second + np.float32(1.0 - beta2) * np.square(descent)
    rate = learning_rate * np.sqrt(1.0 - beta2**count) / (1.0 - beta1**count)
    step = np.float32(rate) * first / (np.sqrt(second) + np.float32(epsilon))
    return AdamStep(parameters - step, first, second)


class MomentumStep(NamedTuple):
    """New parameters and velocity."""

    parameters: Float32[np.ndarray, " P"]
    velocity: Float32[np.ndarray, " P"]


def momentum_step(
    parameters: Float32[np.ndarray, " P"],
    ascent: Float32[np.ndarray, " P"],
    velocity: Float32[np.ndarray, " P"],
    *,
    learning_rate: float,
    weight_decay: float,
    momentum: float = 0.9,
) -> MomentumStep:
    """v ← μv + (1 − μ)(−g + λθ); θ ← θ − αv, the SGD of OpenAI-ES's reference code."""
    descent = np.float32(weight_decay) * parameters - ascent
    velocity = np.float32(momentum) * velocity + np.float32(1.0 - momentum) * descent
    return MomentumStep(parameters - np.float32(learning_rate) * velocity, velocity)
