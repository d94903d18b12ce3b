"""Arguments of the calls from Python: settings of a config, and those of its layout."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from drumline.api.other_names import our_name
from drumline.api.whole_numbers import whole_number
from drumline.recipes.method import Method
from drumline.training.layout import Layout


def layout_of(workers: int | Literal["inline"], kind: type[Layout] = Layout) -> Layout:
    """Return the layout that the Python interface's `workers` names."""
    if workers == "inline":
        return kind(pool="inline")
    return kind(workers=whole_number("workers", workers, least=0, other=', or "inline"'))


def layout_from(
    method: Method,
    workers: int | Literal["inline"],
    layout: Layout | None,
    settings: dict[str, Any],
) -> Layout:
    """Return the layout of `workers` and of those `settings` that are its own.

    They are taken out of `settings`; ValueError if a whole layout is given beside them.
    """
    known = {field.name for field in fields(method.layout)} - method.fields
    own = {name: settings.pop(name) for name in sorted(known & settings.keys())}
    if layout is None:
        return replace(layout_of(workers, method.layout), **own)
    if workers or own:
        names = ", ".join([*(["workers"] if workers else []), *own])
        raise ValueError(f"a layout is given, and {names} beside it: say it in the layout")
    return layout


def in_our_words(method: Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with 1e5 as 100000 for whole numbers.

    ValueError for a name of another library.
    """
    whole = {field.name for field in fields(method.config) if field.type in (int, "int")}
    of_layout = (field.name for field in fields(method.layout))
    known = {name.replace("_", "-") for name in (*method.fields, *of_layout, "workers")}
    for name in settings:
        if found := our_name(name.replace("_", "-"), known):
            ours, remark = found[0].replace("-", "_"), found[1]
            raise ValueError(f"{method.name} has no setting {name!r}: it is called {ours}{remark}")
    return {
        name: int(value)
        if name in whole and isinstance(value, float) and value.is_integer()
        else value
        for name, value in settings.items()
    }
