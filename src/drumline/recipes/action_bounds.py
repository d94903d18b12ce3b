"""A word about bounds of actions in which a Gaussian policy would hardly move."""

import logging
from functools import cache
from typing import Any

import numpy as np

_LOGGER = logging.getLogger("drumline")

WIDEST, NARROWEST = 20.0, 0.1
"""Widths between which bounds are no cause for a word: of MuJoCo's tasks, 0.8 and 6."""


def far_bounds(space: Any) -> str:
    """Return a sentence on bounds far from ±1; empty where there are none, or the policy fits.

    A Gaussian policy begins with means around 0 and a standard deviation of 1 in units of the
    actions themselves, whatever their bounds.
    """
    if not hasattr(space, "high"):
        return ""
    low, high = (np.asarray(each, np.float64).ravel() for each in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = low[bounded], high[bounded]
    width = high - low
    far = (width > WIDEST) | ((width > 0) & (width < NARROWEST)) | (low >= 1.0) | (high <= -1.0)
    if not far.any():
        return ""
    one = int(np.flatnonzero(far)[0])
    return (
        f"actions lie between {low[one]:g} and {high[one]:g}, and the policy of hts, a2c, ppo and "
        "impala begins around 0 with a standard deviation of 1: wrap the environment in "
        "gymnasium.wrappers.RescaleAction(env, -1.0, 1.0) in a factory of your own, named as "
        "module:factory"
    )


@cache
def _say(env_id: str, sentence: str) -> None:
    _LOGGER.warning("%s: %s", env_id, sentence)


def warn_of_far_bounds(env_id: str, space: Any) -> None:
    """Log that sentence once."""
    if sentence := far_bounds(space):
        _say(env_id, sentence)
