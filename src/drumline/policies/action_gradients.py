"""Log-probabilities and entropies of stochastic actions in NumPy, with their derivatives.

A loss's derivatives pass through them on their way to a network's outputs.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from drumline.policies.actions import ActionHead

_LOG_SQRT_2PI = np.float32(0.5 * math.log(2.0 * math.pi))


class ActionTerms(NamedTuple):
    """Log-probabilities and entropies (nats) of a batch, and their derivatives by the outputs."""

    log_probs: Float32[np.ndarray, " N"]
    entropies: Float32[np.ndarray, " N"]
    d_log_probs: Float32[np.ndarray, "N O"]
    d_entropies: Float32[np.ndarray, "N O"]

    def d_outputs(
        self, by_log_probs: Float32[np.ndarray, " N"], by_entropies: np.ndarray | np.float32
    ) -> Float32[np.ndarray, "N O"]:
        """Return a loss's derivative by the outputs; `by_entropies`: `[N]`, or one for all rows."""
        result = by_log_probs[:, None] * self.d_log_probs
        if np.ndim(by_entropies):
            result += np.reshape(by_entropies, (-1, 1)) * self.d_entropies
        elif by_entropies:
            result += by_entropies * self.d_entropies
        return result


def action_terms(
    head: ActionHead, outputs: Float32[np.ndarray, "N O"], actions: np.ndarray
) -> ActionTerms:
    """Return log π(a|s), the entropy, and ∂/∂outputs of both."""
    if head.kind == "gaussian":
        return _gaussian(outputs, actions, head.sizes[0])
    if head.kind == "categorical":
        return _categorical(outputs, actions)
    bounds = np.cumsum((0, *head.sizes)).tolist()
    parts = [
        _categorical(outputs[:, a:b], actions[:, component])
        for component, (a, b) in enumerate(pairwise(bounds))
    ]
    log_probs, entropies = parts[0].log_probs, parts[0].entropies
    for part in parts[1:]:
        log_probs = log_probs + part.log_probs
        entropies = entropies + part.entropies
    return ActionTerms(
        log_probs,
        entropies,
        np.concatenate([part.d_log_probs for part in parts], axis=1),
        np.concatenate([part.d_entropies for part in parts], axis=1),
    )


def _gaussian(outputs: np.ndarray, actions: np.ndarray, size: int) -> ActionTerms:
    """log π = Σ −½z² − log σ − ½ log 2π with z = (a − μ)/σ; H = Σ log σ + ½ + ½ log 2π."""
    mean, log_std = outputs[:, :size], outputs[:, size:]
    inverse = np.exp(-log_std)
    z = (actions - mean) * inverse
    squares = z * z
    d_log_probs = np.empty_like(outputs)
    np.multiply(z, inverse, out=d_log_probs[:, :size])
    np.subtract(squares, np.float32(1.0), out=d_log_probs[:, size:])
    d_entropies = np.zeros_like(outputs)
    d_entropies[:, size:] = 1.0
    squares *= np.float32(-0.5)
    squares -= log_std
    squares -= _LOG_SQRT_2PI
    constant = np.float32(0.5) + _LOG_SQRT_2PI
    return ActionTerms(
        np.add.reduce(squares, axis=1),
        np.add.reduce(log_std + constant, axis=1),
        d_log_probs,
        d_entropies,
    )


def _categorical(logits: np.ndarray, actions: np.ndarray) -> ActionTerms:
    """∂ log p_a/∂l_j = [a = j] − p_j; ∂H/∂l_j = −p_j (log p_j + H)."""
    rows = np.arange(len(logits))
    log_p = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    log_p -= np.log(np.add.reduce(np.exp(log_p), axis=1, keepdims=True))
    p = np.exp(log_p)
    entropies = -np.add.reduce(p * log_p, axis=1)
    d_entropies = -p * (log_p + entropies[:, None])
    d_log_probs = -p
    d_log_probs[rows, actions] += np.float32(1.0)
    return ActionTerms(log_p[rows, actions], entropies, d_log_probs, d_entropies)
