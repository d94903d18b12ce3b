"""Kinds of the values in a config or a layout; each error names the flag."""

import dataclasses
import numbers
from collections.abc import Callable
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints


def refuse_other_kinds(settings: Any) -> None:
    """Raise for a field with a value of another kind, as only settings made in Python can have."""
    kind: type[Any] = settings.__class__
    try:
        hints = get_type_hints(kind)
    except NameError:  # a class from outside may name types that it imports for a checker alone
        return
    own = kind.__module__.startswith("drumline.")
    for field in dataclasses.fields(settings):
        hint, value = hints[field.name], getattr(settings, field.name)
        flag, words = f"--{field.name.replace('_', '-')}", get_args(hint)
        if get_origin(hint) is Literal and value not in words:
            allowed = ", ".join(map(str, words[:-1])) + f" or {words[-1]}"
            raise ValueError(f"{flag} must be {allowed}, got {value!r}")
        if own and hint in _KINDS:
            fits, called = _KINDS[hint]
            if not fits(value):
                raise ValueError(f"{flag} must be {called}, got {value!r}")


def is_number(value: object) -> bool:
    """Return whether a value is a number; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, numbers.Real)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Integral)


def _are_whole(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(map(_is_whole, cast("list[Any]", value)))


_KINDS: dict[Any, tuple[Callable[[object], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (_is_whole, "a whole number"),
    float: (is_number, "a number"),
    str: (lambda value: isinstance(value, str), "a text"),
    tuple[int, ...]: (_are_whole, "whole numbers, as in (64, 64)"),
}
