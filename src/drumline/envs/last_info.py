"""Numbers in the `info` of an episode's last step, such as whether its goal was reached."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Numbers = tuple[tuple[str, float], ...]
"""Names and values, by name."""

MOST = 32
"""Numbers of an episode that are kept, the first by name."""
_NAME = re.compile(r"[A-Za-z_][\w./ -]{0,63}")
_BOOKKEEPING = frozenset({"env_id", "elapsed_step", "reward", "terminated", "TimeLimit.truncated"})
"""Entries of EnvPool and Gymnasium that say nothing of the episode."""


def numbers_of(environment: Any, info: Mapping[Any, Any]) -> Numbers:
    """Return the finite numbers in an episode's last `info`, nested ones left out.

    Gymnasium's tasks with lean steps make no `info` while they step, and are asked for it here.
    """
    asked = getattr(type(environment), "info_of_last_step", None)
    told = info or (asked(environment) if asked is not None else {})
    named = ((name, _number(value)) for name, value in told.items() if _is_name(name))
    found = sorted((name, value) for name, value in named if value is not None)
    return tuple(found[:MOST])


def means(episodes: Iterable[Numbers]) -> Numbers:
    """Return for each name the mean over those episodes that have it.

    >>> means([(("a", 1.0), ("b", 3.0)), (("a", 0.0),)])
    (('a', 0.5), ('b', 3.0))
    """
    values: dict[str, list[float]] = {}
    for numbers in episodes:
        for name, value in numbers:
            values.setdefault(name, []).append(value)
    return tuple((name, math.fsum(each) / len(each)) for name, each in sorted(values.items()))


def _is_name(name: Any) -> bool:
    named = isinstance(name, str) and _NAME.fullmatch(name) is not None
    return named and name not in _BOOKKEEPING


def _number(value: Any) -> float | None:
    if isinstance(value, np.ndarray):
        if value.size != 1:
            return None
        value = value.reshape(-1)[0]
    if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int beyond every float, as a hash or the number of a state may be
        return None
    return number if math.isfinite(number) else None
