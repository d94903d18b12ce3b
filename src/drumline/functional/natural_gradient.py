"""Separable natural evolution strategies: utilities and one step on mean and std."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Float64


def nes_utilities(count: int) -> Float64[np.ndarray, " N"]:
    """u_k ∝ max(0, ln(N/2 + 1) − ln k), sum 1, less 1/N; best first (Wierstra et al. 2014, §3.1).

    They sum to 0, so a shift of all samples moves nothing.
    """
    if count < 2:
        raise ValueError(f"utilities rank at least 2 individuals, got {count}")
    raw = np.maximum(0.0, math.log(count / 2 + 1) - np.log(np.arange(1, count + 1)))
    return raw / raw.sum() - 1.0 / count


def snes_learning_rate(parameter_count: int) -> float:
    """η_σ = (3 + ln d) / (5 √d) of SNES (Wierstra et al. 2014, Table 1)."""
    return (3.0 + math.log(parameter_count)) / (5.0 * math.sqrt(parameter_count))


def longest_deviation(parameter_count: int) -> float:
    """√d + 2d / (d + 2): bound of an injected ‖(z − μ)/σ‖ (Hansen 2011, arXiv 1110.4181)."""
    return math.sqrt(parameter_count) + 2.0 * parameter_count / (parameter_count + 2.0)


def standardized(
    vector: Float32[np.ndarray, " P"],
    mean: Float32[np.ndarray, " P"],
    std: Float32[np.ndarray, " P"],
    longest: float,
) -> Float32[np.ndarray, " P"]:
    """s = (z − μ) / σ, cut to the length `longest`."""
    deviation = vector - mean
    deviation /= std
    length = math.sqrt(float(np.sum(np.square(deviation), dtype=np.float64)))
    if length > longest:
        deviation *= np.float32(longest / length)
    return deviation


def snes_step(
    mean: Float32[np.ndarray, " P"],
    std: Float32[np.ndarray, " P"],
    deviations: Sequence[Float32[np.ndarray, " P"]],
    utilities: Float64[np.ndarray, " N"],
    *,
    mean_rate: float,
    std_rate: float,
) -> tuple[Float32[np.ndarray, " P"], Float32[np.ndarray, " P"]]:
    """μ + η_μ σ Σ u s and σ exp(η_σ/2 Σ u (s² − 1)) (Wierstra et al. 2014, Algorithm 6).

    ln σ moves by at most 1, because a refined individual can lie far out in a few coordinates.
    """
    shift, growth = np.zeros_like(mean), np.zeros_like(mean)
    for deviation, utility in zip(deviations, utilities.tolist(), strict=True):
        shift += deviation * np.float32(utility)
        squares = np.square(deviation)
        squares -= np.float32(1.0)
        growth += squares * np.float32(utility)
    growth *= np.float32(0.5 * std_rate)
    np.clip(growth, -1.0, 1.0, out=growth)
    shift *= std
    shift *= np.float32(mean_rate)
    return mean + shift, std * np.exp(growth)
