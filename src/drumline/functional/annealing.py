"""Schedules of the learning rate, the clip range and the entropy coefficient."""

from collections.abc import Callable


def linear(start: float, end: float, intervals: int) -> Callable[[int], float]:
    """Return interval k → (1 − k/K) start + (k/K) end; the end belongs to interval K.

    >>> rate = linear(1.0, 0.0, 4)
    >>> rate(0), rate(3)
    (1.0, 0.25)
    """
    if start == end:  # exact, which the sum below need not be
        return lambda interval: start
    return lambda interval: start * (1.0 - interval / intervals) + end * (interval / intervals)
