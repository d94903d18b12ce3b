"""Whole numbers among the arguments of Drumline's Python interface."""

import operator
from typing import Any


def whole_number(name: str, value: Any, *, least: int | None = None, other: str = "") -> int:
    """Return an argument as an int; ValueError if it is no whole number, or below `least`.

    NumPy's whole numbers are taken, True and False are not. `other`: words for the error, of
    another value that the caller takes.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        bound = "" if least is None else f" of {least} or more"
        raise ValueError(f"{name} must be a whole number{bound}{other}, got {value!r}")
    return number
