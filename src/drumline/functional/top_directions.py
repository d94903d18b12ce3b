"""ARS's weights: the best directions, scaled by the spread of their returns."""

import numpy as np
from jaxtyping import Float

from drumline.functional.ranking import spread_scale


def top_direction_weights(
    plus: Float[np.ndarray, " N"], minus: Float[np.ndarray, " N"], top: int
) -> Float[np.ndarray, " N"]:
    """(r⁺ − r⁻) / (b σ_R) on the b directions with the largest max(r⁺, r⁻), 0 elsewhere.

    Mania et al. 2018, Algorithm 2, lines 5–7; ties keep the lower index; all 0 when σ_R is 0.
    """
    if not 1 <= top <= plus.size:
        raise ValueError(f"top_directions must be 1 to {plus.size}, got {top}")
    best = np.argsort(-np.maximum(plus, minus), kind="stable")[:top]
    used = np.concatenate([plus[best], minus[best]])
    weights = np.zeros(plus.size)
    if np.all(used == used[0]):
        return weights
    used = used / spread_scale(used)
    weights[best] = (used[:top] - used[top:]) / (top * used.std())
    return weights
