"""Methods from outside: `package.module:Class`, and names of the entry points `drumline.methods`.

A class is refused here, in one sentence, if it could not be a method: its fields become flags and
lines of config.json.
"""

import dataclasses
import importlib
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, get_origin

from drumline.recipes.method import REQUIRED, Method

GROUP = "drumline.methods"
"""Entry-point group under which an installed package names its methods."""

_PLAIN = (str, int, float, bool, type(None))


def registered() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages, by name; raises where two have the same."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise ValueError(
                f"two installed packages call a method {point.name!r}: {other.value} and "
                f"{point.value}; uninstall one, or name the class: drumline train {point.value} ENV"
            )
    return found


def method_at(path: str) -> Method:
    """Return the method of `package.module:Class`; the current directory must be importable."""
    module_name, _, name = path.partition(":")
    module = _raised_in(f"importing {module_name}", path, importlib.import_module, module_name)
    found = getattr(module, name, None)
    if found is None:
        raise ValueError(f"{path}: module {module_name} has no {name!r}")
    return checked(path, found)


def method_of_entry_point(point: EntryPoint) -> Method:
    """Return the method that an installed package registered."""
    return checked(point.name, _raised_in(f"loading {point.value}", point.name, point.load))


def name_of(config_class: type[Any]) -> str:
    """Return the name by which a class is found again: its entry point's, or its place."""
    place = f"{config_class.__module__}:{config_class.__qualname__}"
    return next((name for name, point in registered().items() if point.value == place), place)


def checked(name: str, found: Any) -> Method:
    """Return a class as a method; raises `ValueError` with the first thing that it lacks."""
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ValueError(
            f"{name} is no method: it must be a frozen dataclass with build(layout), "
            f"got {found!r:.80}"
        )
    if not found.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(f"{name} must be @dataclass(frozen=True): a config never changes in a run")
    if not callable(getattr(found, "build", None)):
        raise ValueError(f"{name} is no method: it has no build(layout) that returns a recipe")
    _refuse_untyped(name, found)
    fields = {field.name: field for field in dataclasses.fields(found)}
    known = {*fields, *(n for n in REQUIRED if hasattr(found, n))}
    if missing := [field for field in REQUIRED if field not in known]:
        raise ValueError(f"{name} lacks the field{'s' * (len(missing) > 1)} {', '.join(missing)}")
    for field in fields.values():
        _refuse_unusable_field(name, field)
    for env_id, preset in getattr(found, "PRESETS", {}).items():
        if unknown := sorted(set(preset) - set(fields)):
            raise ValueError(f"{name}: the preset of {env_id} has no field {', '.join(unknown)}")
    return Method(name, found)


def _refuse_untyped(name: str, found: type[Any]) -> None:
    """Refuse `learning_rate = 0.1`: without a type it would be no field, and no flag."""
    for parent in found.__mro__[:-1]:
        typed = getattr(parent, "__annotations__", {})
        for attribute, value in vars(parent).items():
            hidden = attribute.startswith("_") or attribute.isupper() or attribute in typed
            if not hidden and isinstance(value, (*_PLAIN, tuple, list, dict)):
                raise ValueError(
                    f"{name}: {attribute} has no type, so it would be no flag: write "
                    f"{attribute}: {type(value).__name__} = {value!r}"
                )


def _refuse_unusable_field(name: str, field: "dataclasses.Field[Any]") -> None:
    if get_origin(field.type) is ClassVar or field.name == "env":
        return
    if field.default is dataclasses.MISSING:
        raise ValueError(f"{name}: field {field.name} has no default; only env has none")
    values = field.default if isinstance(field.default, tuple) else (field.default,)
    if not all(isinstance(value, _PLAIN) for value in values):
        raise ValueError(
            f"{name}: field {field.name} has the default {field.default!r}; config.json can hold "
            "text, numbers, true, false, none and tuples of them"
        )


def _raised_in(doing: str, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's code; whatever it raises becomes one sentence."""
    try:
        return call(*arguments)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name.partition(":")[0], None)  # half imported: not to be found again
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{name}: {doing} raised {what}") from error
