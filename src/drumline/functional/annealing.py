"""Schedules of step sizes, stds, the clip range and the entropy coefficient."""

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


def decaying(start: float, decay: float, floor: float) -> Callable[[int], float]:
    """Return g → max(floor, start · decay^g).

    >>> rate = decaying(1.0, 0.5, 0.2)
    >>> rate(0), rate(1), rate(9)
    (1.0, 0.5, 0.2)
    """
    return lambda generation: max(floor, start * decay**generation)
