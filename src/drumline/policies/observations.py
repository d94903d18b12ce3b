"""Preparation of an environment's observations for a network."""

import numpy as np

OBSERVATION_CLIP = 10.0


def normalized(observations: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray) -> np.ndarray:
    """Return (o − mean) / std, computed in float64, clipped to ±10 and rounded to float32."""
    rows = observations.reshape(len(observations), mean.size) - mean
    rows *= inverse_std
    np.maximum(rows, -OBSERVATION_CLIP, out=rows)  # np.clip takes several times as long
    np.minimum(rows, OBSERVATION_CLIP, out=rows)
    return rows.astype(np.float32, order="C").reshape(observations.shape)
