"""Heads: conversions from a policy's raw output to an action of the environment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

ToAction = Callable[[np.ndarray, np.ndarray | None], Any]
"""(raw output, action noise or None) → action; may overwrite the output, a buffer of the policy."""

BatchToActions = Callable[[np.ndarray, np.ndarray | None], Sequence[Any]]
"""(raw outputs `[N, O]`, action noise `[N, A]` or None) → N actions; may overwrite the outputs."""

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Range that a squashed Gaussian's log-stds are clipped to, as in SAC (Haarnoja et al. 2018)."""


@dataclass(frozen=True)
class Head:
    """Conversion of raw outputs to an action; plain tuples, so that it pickles small."""

    kind: Literal["continuous", "squashed", "squashed-gaussian", "bins", "discrete"]
    """squashed: tanh of the output, scaled to [low, high]; continuous: the output, clipped;
    squashed-gaussian: tanh of a normal variable, scaled: the output is its means and log-stds."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = "<f4"
    bins: tuple[float, ...] = ()
    """Places of the bins in [−1, 1], first −1 and last +1, scaled to [low, high]."""
    choices: int = 0
    start: int = 0

    @property
    def output_size(self) -> int:
        """Return the number of outputs of the network."""
        if self.kind == "discrete":
            return self.choices
        components = len(self.low)
        if self.kind == "squashed-gaussian":
            return 2 * components
        return components * len(self.bins) if self.kind == "bins" else components

    @property
    def action_size(self) -> int:
        """Return the number of values in an action."""
        return 1 if self.kind == "discrete" else len(self.low)

    @property
    def has_std(self) -> bool:
        """Return whether the network puts out the std of actions, which scales their noise."""
        return self.kind == "squashed-gaussian"

    def noise_scale(self, exploration: float) -> np.ndarray:
        """Return `[A]` by which standard normal numbers are multiplied before the head adds them.

        `exploration` counts the network's own stds, or else halves of the action range.
        """
        if self.has_std:
            return np.full(len(self.low), exploration, np.float32)
        width = np.array(self.high, np.float32) - np.array(self.low, np.float32)
        return width * np.float32(0.5 * exploration)


def parse_bins(text: str) -> tuple[float, ...]:
    """Parse `uniform:K` or `custom:v0,v1,…`; empty for `continuous`.

    >>> parse_bins("uniform:3")
    (-1.0, 0.0, 1.0)
    """
    kind, _, rest = text.partition(":")
    if kind == "continuous" and not rest:
        return ()
    if kind == "uniform" and rest.isdigit() and int(rest) >= 2:
        count = int(rest)
        return tuple(-1.0 + 2.0 * i / (count - 1) for i in range(count))
    if kind == "custom" and rest:
        try:
            values = tuple(float(value) for value in rest.split(","))
        except ValueError:
            values = ()
        ordered = len(values) >= 2 and all(a < b for a, b in pairwise(values))
        if ordered and (min(values), max(values)) == (-1.0, 1.0):
            return values
        raise ValueError(
            f"--action-bins {text!r}: custom bins ascend from -1 to 1, as in custom:-1,-0.5,0,0.5,1"
        )
    raise ValueError(
        f"--action-bins {text!r} is none of continuous, uniform:K (K ≥ 2) and custom:v0,v1,…"
    )


def stored_action_function(head: Head) -> Callable[[np.ndarray], Any]:
    """Return the function from a replay's action, `[A]` float32, to a new action."""
    if head.kind == "discrete":
        start = head.start
        return lambda stored: int(stored[0]) + start
    return _formed(head)


def _formed(head: Head) -> Callable[[np.ndarray], np.ndarray]:
    """Return the conversion of a new `[A]` to a space's dtype and shape, within its bounds.

    float32(0.1) is more than 0.1.
    """
    dtype, shape = np.dtype(head.dtype), head.shape
    if dtype == np.float32:
        return lambda action: action.astype(dtype).reshape(shape)
    low, high = np.array(head.low, dtype), np.array(head.high, dtype)
    return lambda action: np.minimum(np.maximum(action.astype(dtype), low), high).reshape(shape)


def action_function(head: Head) -> ToAction:
    """Return the pure function from raw outputs to the environment's action."""
    if head.kind == "discrete":
        start = head.start
        return lambda output, noise: int(output.argmax()) + start
    with np.errstate(over="ignore"):  # float64 bounds beyond float32 become infinite: no bounds
        low, high = np.array(head.low, np.float32), np.array(head.high, np.float32)
    dtype, shape = np.dtype(head.dtype), head.shape
    bounded = bool(np.any(np.isfinite(low)) or np.any(np.isfinite(high)))
    plain = dtype == np.float32 and shape == (len(head.low),)
    formed = _formed(head)
    if head.kind == "bins":
        places = np.array(head.bins, np.float32)
        values = low[:, None] + (places + 1.0) * 0.5 * (high - low)[:, None]
        values = np.minimum(values, high[:, None])  # low + (high - low) may round above high
        rows = np.arange(len(head.low))

        def pick(output: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
            chosen = output.reshape(len(rows), -1).argmax(axis=1)
            action = values[rows, chosen]
            if noise is not None:
                action = np.minimum(np.maximum(action + noise, low), high)
            return action if plain else formed(action)

        return pick

    if head.kind in ("squashed", "squashed-gaussian"):
        if not np.isfinite([low, high]).all():
            raise ValueError(f"tanh cannot be scaled to unbounded actions: {head.low} {head.high}")
        center, half = (low + high) * np.float32(0.5), (high - low) * np.float32(0.5)
        # With asymmetric bounds, rounding may overstep them where tanh is ±1.
        oversteps = bool(np.any(center + half > high) or np.any(center - half < low))

        components = len(head.low)

        def squash_normal(output: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
            normal = output[:components]
            if noise is not None:
                normal = normal + np.exp(np.clip(output[components:], *LOG_STD_BOUNDS)) * noise
            action = np.tanh(normal) * half + center
            if oversteps:
                np.maximum(action, low, out=action)
                np.minimum(action, high, out=action)
            return action if plain else formed(action)

        def squash(output: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
            action = np.tanh(output) * half + center
            if noise is not None:
                action += noise
            if oversteps or noise is not None:
                np.maximum(action, low, out=action)
                np.minimum(action, high, out=action)
            return action if plain else formed(action)

        return squash_normal if head.has_std else squash

    def bound(output: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        if noise is not None:
            output += noise
        if bounded:
            np.maximum(output, low, out=output)
            np.minimum(output, high, out=output)
        # The environment may keep the array, so the buffer itself is never returned.
        return output.copy() if plain else formed(output)

    return bound


def batch_action_function(head: Head) -> BatchToActions | None:
    """Return `action_function` for the outputs of several members; None for some heads."""
    if head.kind == "discrete":
        start = head.start
        if start == 0:
            return lambda outputs, noise: outputs.argmax(1).tolist()
        return lambda outputs, noise: (outputs.argmax(1) + start).tolist()
    if head.kind not in ("continuous", "bins"):
        return None
    if np.dtype(head.dtype) != np.float32 or head.shape != (len(head.low),):
        return None
    low, high = np.array(head.low, np.float32), np.array(head.high, np.float32)
    if head.kind == "bins":
        places = np.array(head.bins, np.float32)
        values = low[:, None] + (places + 1.0) * 0.5 * (high - low)[:, None]
        values = np.minimum(values, high[:, None])
        rows, components = np.arange(len(head.low)), len(head.low)

        def pick(outputs: np.ndarray, noise: np.ndarray | None) -> list[np.ndarray]:
            chosen = outputs.reshape(len(outputs), components, -1).argmax(axis=2)
            actions = values[rows, chosen]
            if noise is not None:
                actions += noise
                np.maximum(actions, low, out=actions)
                np.minimum(actions, high, out=actions)
            return list(actions)

        return pick
    bounded = bool(np.any(np.isfinite(low)) or np.any(np.isfinite(high)))

    def bound(outputs: np.ndarray, noise: np.ndarray | None) -> list[np.ndarray]:
        actions = outputs.copy() if noise is None else outputs + noise
        if bounded:
            np.maximum(actions, low, out=actions)
            np.minimum(actions, high, out=actions)
        return list(actions)

    return bound
