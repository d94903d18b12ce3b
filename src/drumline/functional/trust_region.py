"""KL divergence between diagonal Gaussians, and the part of a step that stays within a bound."""

import math

import numpy as np
from jaxtyping import Float32, Float64


def diagonal_kl(
    new_mean: Float32[np.ndarray, " P"],
    new_variance: Float32[np.ndarray, " P"],
    old_mean: Float32[np.ndarray, " P"],
    old_variance: Float32[np.ndarray, " P"],
) -> float:
    """KL(new ‖ old) = ½ Σ (Δμ² / v + v'/v − 1 − ln(v'/v)) in nats, summed in float64."""
    shift, growth = _relative(new_mean, new_variance, old_mean, old_variance)
    return _divergence(1.0, shift, growth)


def step_within_kl(
    new_mean: Float32[np.ndarray, " P"],
    new_variance: Float32[np.ndarray, " P"],
    old_mean: Float32[np.ndarray, " P"],
    old_variance: Float32[np.ndarray, " P"],
    bound: float,
) -> float:
    """Return the largest t in [0, 1] for which KL(old + t (new − old) ‖ old) ≤ bound.

    Mean and variance move together. KL is convex in both and 0 at t = 0, so it grows with t; a
    chord approaches the root from below and Newton's step from above.
    """
    if not bound > 0.0:
        raise ValueError(f"the KL bound must be above 0 nats, got {bound}")
    shift, growth = _relative(new_mean, new_variance, old_mean, old_variance)
    low, low_kl = 0.0, 0.0
    high, high_kl = 1.0, _divergence(1.0, shift, growth)
    if high_kl <= bound:
        return 1.0
    # KL is at least the mean's part, ½ t² Σ Δμ² / v, which is often nearly all of it.
    nearer = math.sqrt(2.0 * bound / shift) if shift > 2.0 * bound else 1.0
    nearer_kl = _divergence(nearer, shift, growth)
    if nearer_kl <= bound:
        low, low_kl = nearer, nearer_kl
    else:
        high, high_kl = nearer, nearer_kl
    for _ in range(60):
        chord = low + (bound - low_kl) * (high - low) / (high_kl - low_kl)
        if chord <= low:  # float64 comes no closer
            break
        # Convexity keeps t within the bound; an excess is rounding, and no reason to return 0.
        low, low_kl = chord, min(_divergence(chord, shift, growth), bound)
        newton = high - (high_kl - bound) / _slope(high, shift, growth)
        newton_kl = _divergence(newton, shift, growth)
        if newton_kl <= bound or high - low <= 1e-6 * high:
            break
        high, high_kl = newton, newton_kl
    return low


def _relative(
    new_mean: np.ndarray, new_variance: np.ndarray, old_mean: np.ndarray, old_variance: np.ndarray
) -> tuple[float, Float64[np.ndarray, " P"]]:
    """Return Σ Δμ² / v and the growth v'/v − 1 of each variance."""
    old = old_variance.astype(np.float64)
    shift = new_mean.astype(np.float64)
    shift -= old_mean
    np.square(shift, out=shift)
    shift /= old
    growth = new_variance.astype(np.float64)
    growth -= old
    growth /= old
    return float(shift.sum()), growth


def _divergence(step: float, shift: float, growth: Float64[np.ndarray, " P"]) -> float:
    scaled = growth * step
    scaled -= np.log1p(scaled)
    return 0.5 * (step * step * shift + float(scaled.sum()))


def _slope(step: float, shift: float, growth: Float64[np.ndarray, " P"]) -> float:
    """Return d KL / d t: t Σ Δμ²/v + ½ Σ t g² / (1 + t g)."""
    curved = np.square(growth)
    curved /= 1.0 + step * growth
    return step * (shift + 0.5 * float(curved.sum()))
