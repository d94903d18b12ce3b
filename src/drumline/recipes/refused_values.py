"""What is refused of a config's numbers, by the flag that they were typed with."""

import math
from collections.abc import Callable
from typing import Any


def refuse_nonpositive(config: Any, *names: str) -> None:
    """Raise for the first named field that is not above 0, or no finite number."""
    _refuse(config, names, lambda value: value > 0, "above 0")


def refuse_negative(config: Any, *names: str) -> None:
    """Raise for the first named field that is below 0, or no finite number."""
    _refuse(config, names, lambda value: value >= 0, "0 or more")


def refuse_outside_unit(config: Any, *names: str) -> None:
    """Raise for the first named field that is not in [0, 1]."""
    _refuse(config, names, lambda value: 0 <= value <= 1, "in [0, 1]")


def refuse_unfinite(config: Any, *names: str) -> None:
    """Raise for the first named field that is no finite number."""
    _refuse(config, names, lambda value: True, "a finite number")


def _refuse(
    config: Any, names: tuple[str, ...], allowed: Callable[[float], bool], words: str
) -> None:
    for name in names:
        value, flag = getattr(config, name), f"--{name.replace('_', '-')}"
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{flag} must be a finite number, got {value}")
        if not allowed(value):
            raise ValueError(f"{flag} must be {words}, got {value}")
