"""Updates of the search distribution's diagonal variance v by told individuals."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Float64

VARIANCE_FLOOR = 1e-5
SMALLEST_STEP = 1e-3
"""A step size p below this leaves the variance unchanged; the mean still moves."""


def release_sample_count(step_size: float) -> float:
    """n = max(1/p − 1, 1) of the released AES-RL code: p = 1/(n + 1) after n earlier samples."""
    return max(1.0 / step_size - 1.0, 1.0)


def strict_sample_count(step_size: float) -> float:
    """n = 1/p: the divisor of Welford's recurrence when the mean moves by p."""
    return 1.0 / step_size


def welford_variance(
    variance: Float32[np.ndarray, " P"],
    deviation: Float32[np.ndarray, " P"],
    step_size: float,
    sample_count: float,
    *,
    floor: float = VARIANCE_FLOOR,
) -> Float32[np.ndarray, " P"]:
    """v + ((z − μ)(z − μ') − v) / n, not below `floor` (Welford 1962); `deviation` is z − μ.

    (z − μ)(z − μ') is (1 − p)(z − μ)², which cannot round below 0.
    """
    if not sample_count >= 1.0:
        raise ValueError(f"sample_count must be at least 1, got {sample_count}")
    updated = np.square(deviation)
    updated *= np.float32((1.0 - step_size) / sample_count)
    updated += variance * np.float32(1.0 - 1.0 / sample_count)
    return np.maximum(updated, np.float32(floor), out=updated)


def one_fifth_factor(
    successes: Sequence[bool], *, target: float = 0.2, factor: float = 0.99
) -> float:
    """1/c if the success rate is above a fifth, else c (Rechenberg 1973), c on the variance."""
    return 1.0 / factor if sum(successes) > target * len(successes) else factor


def scaled_variance(
    variance: Float32[np.ndarray, " P"], factor: float, *, floor: float = VARIANCE_FLOOR
) -> Float32[np.ndarray, " P"]:
    """max(c v, floor)."""
    scaled = variance * np.float32(factor)
    return np.maximum(scaled, np.float32(floor), out=scaled)


def elite_variance(
    elites: Sequence[Float32[np.ndarray, " P"]],
    weights: Float64[np.ndarray, " K"],
    mean: Float32[np.ndarray, " P"],
    damp: float,
    *,
    divide_by_elites: bool = True,
) -> Float32[np.ndarray, " P"]:
    """Σ w_i (z_i − μ_old)² / K + ε; without the 1/K it is CEM-RL's equation (its code has it)."""
    scale = 1.0 / len(elites) if divide_by_elites else 1.0
    total = np.full_like(mean, damp)
    for vector, weight in zip(elites, weights.tolist(), strict=True):
        deviation = vector - mean
        np.square(deviation, out=deviation)
        deviation *= np.float32(weight * scale)
        total += deviation
    return total


def decayed_damp(damp: float, limit: float, decay: float) -> float:
    """ε ← t ε + (1 − t) ε_end."""
    return decay * damp + (1.0 - decay) * limit
