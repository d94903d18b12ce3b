"""Stochastic actions in NumPy, from a network's outputs and given random numbers.

All operations are elementwise or reductions along a row, so a row's bits do not depend on its
batch.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_LARGEST_UNIFORM = np.float32(1.0) - np.float32(2.0**-24)


@dataclass(frozen=True)
class ActionHead:
    """Meaning of a policy's outputs: `sizes` are choices per component, or numbers of an action."""

    kind: Literal["categorical", "multi-discrete", "gaussian"]
    sizes: tuple[int, ...]

    @property
    def output_size(self) -> int:
        """Return the number of outputs: logits, or means and then log stds."""
        return 2 * self.sizes[0] if self.kind == "gaussian" else sum(self.sizes)

    @property
    def noise_size(self) -> int:
        """Return the number of random numbers per action."""
        return self.sizes[0] if self.kind == "gaussian" else len(self.sizes)

    @property
    def noise_kind(self) -> Literal["uniform", "normal"]:
        """Return the distribution of these random numbers."""
        return "normal" if self.kind == "gaussian" else "uniform"

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Return the shape of one action."""
        return {"categorical": (), "multi-discrete": (len(self.sizes),)}.get(self.kind, self.sizes)

    @property
    def action_dtype(self) -> str:
        """Return the dtype of stored actions."""
        return "<f4" if self.kind == "gaussian" else "<i8"


def head_for(space: Any) -> ActionHead:
    """Return the head that serves a Gymnasium action space; raises `ValueError` for others."""
    kinds = {kind.__name__ for kind in type(space).__mro__}  # Gymnasium is not imported here
    if "Discrete" in kinds:
        return ActionHead("categorical", (int(space.n),))
    if "MultiDiscrete" in kinds and space.nvec.ndim == 1:
        return ActionHead("multi-discrete", tuple(int(n) for n in space.nvec))
    if "Box" in kinds and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        return ActionHead("gaussian", (int(space.shape[0]),))
    raise ValueError(
        f"no action head serves {space}: there are heads for Discrete, for MultiDiscrete in one "
        "dimension and for Box of floats in one dimension"
    )


def sample(
    head: ActionHead, outputs: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return actions `[B, …]` and their log-probabilities `[B]` float32.

    Discrete: the smallest choice whose cumulated probability exceeds the uniform number.
    Continuous: mean + std · normal number; the environment clips, the policy does not.
    """
    if head.kind == "gaussian":
        size = head.sizes[0]
        log_std = outputs[:, size:]
        actions = outputs[:, :size] + np.exp(log_std) * noise
        terms = -0.5 * np.square(noise) - log_std - np.float32(_LOG_SQRT_2PI)
        return actions, _row_sums(terms)
    if head.kind == "categorical":
        return _choose(outputs, noise[:, 0])
    chosen: list[np.ndarray] = []
    log_probs = np.zeros(len(outputs), np.float32)
    start = 0
    for component, size in enumerate(head.sizes):
        action, log_prob = _choose(outputs[:, start : start + size], noise[:, component])
        chosen.append(action)
        log_probs += log_prob
        start += size
    return np.stack(chosen, axis=1), log_probs


def most_likely(head: ActionHead, outputs: np.ndarray) -> np.ndarray:
    """Return each row's mode `[B, …]`."""
    if head.kind == "gaussian":
        return outputs[:, : head.sizes[0]].copy()
    if head.kind == "categorical":
        return outputs.argmax(axis=1)
    bounds = np.cumsum((0, *head.sizes)).tolist()
    parts = [outputs[:, a:b].argmax(axis=1) for a, b in pairwise(bounds)]
    return np.stack(parts, axis=1)


def _choose(logits: np.ndarray, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # methods of ufuncs: NumPy's own wrappers cost as much as the work on a few rows
    shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    cumulated = np.add.accumulate(np.exp(shifted), axis=1)
    total = cumulated[:, -1]
    threshold = np.minimum(uniform, _LARGEST_UNIFORM) * total
    # Below the total after rounding too: (1 − 2⁻²⁴) · total is half an ulp or more under it.
    actions = np.add.reduce(cumulated <= threshold[:, None], axis=1, dtype=np.int64)
    chosen = shifted[np.arange(len(actions)), actions]
    return actions, chosen - np.log(total)


def _row_sums(terms: np.ndarray) -> np.ndarray:
    """Add along each row from left to right: NumPy's own order depends on the array's strides."""
    total = terms[:, 0].copy()
    for column in range(1, terms.shape[1]):
        total += terms[:, column]
    return total
