"""Rarer searches for cyclic garbage in a driver of short episodes."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

_YOUNG_OBJECTS = 50_000
"""New objects between two searches. Python's 700 are the tasks and results of 150 episodes, all of
which live to the end of their generation: searches among them took a tenth of the driver's time."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Let more objects become garbage before Python searches; reference counts free most."""
    before = gc.get_threshold()
    if before[0]:  # 0: no searches at all
        gc.set_threshold(max(before[0], _YOUNG_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
