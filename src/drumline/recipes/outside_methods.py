"""Methods from outside: `package.module:Class`, and names of the entry points `drumline.methods`.

A class is refused here, in one sentence, if it could not be a method: its fields become flags and
lines of config.json.
"""

import dataclasses
import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Container, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, get_type_hints

from drumline.functional.torch_threads import torch_settings_kept
from drumline.recipes.foreign_calls import called
from drumline.recipes.method import REQUIRED, Method
from drumline.training.layout import Layout

GROUP = "drumline.methods"
"""Entry-point group under which an installed package names its methods."""

_PLAIN = (str, int, float, bool, type(None))
_CONSTANTS = frozenset(("promise", "no_promise"))  # may stand fixed in a class, without a type


def registered() -> dict[str, list[EntryPoint]]:
    """Return the entry points of installed packages, by name; several places if names clash."""
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in _points_in(_places()):
        if point.value not in [other.value for other in found[point.name]]:
            found[point.name].append(point)
    return dict(found)


def _places() -> tuple[tuple[str, int, int], ...]:
    """Return the folders of packages, each with the time at which a package came or went."""
    return tuple((path, *_changed(path or os.curdir)) for path in sys.path)


def _changed(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:  # a folder of sys.path need not exist
        return 0, 0
    return found.st_ino, found.st_mtime_ns


@lru_cache(maxsize=1)  # it opens a file of every installed package, and a command asks three times
def _points_in(places: tuple[tuple[str, int, int], ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the group while `places` stay as they are."""
    del places
    return tuple(entry_points(group=GROUP))


def only(points: list[EntryPoint]) -> EntryPoint:
    """Return the one entry point of a name; raises `ValueError` where several packages have it."""
    if len(points) > 1:
        places = " and ".join(point.value for point in points)
        raise ValueError(
            f"two installed packages call a method {points[0].name!r}: {places}; uninstall one, or "
            f"name the class: drumline train {points[0].value} ENV"
        )
    return points[0]


def method_at(path: str) -> Method:
    """Return the method of `package.module:Class`; the current directory must be importable."""
    return checked(path, _found_at(path))


def method_of_entry_point(point: EntryPoint) -> Method:
    """Return the method that an installed package registered."""
    found = called(point.name, f"loading {point.value}", point.load)
    return checked(point.name, found, _package_of(point))


def method_of_class(config_class: type[object], taken: Container[str]) -> Method:
    """Return a class as a method by the name under which a later process finds it again.

    That is its entry point's name, or its place where the name is `taken` or ambiguous.
    """
    place = f"{config_class.__module__}:{config_class.__qualname__}"
    for name, points in registered().items():
        alone = name not in taken and ":" not in name and len(points) == 1
        if alone and f"{points[0].module}:{points[0].attr}" == place:
            return checked(name, config_class, _package_of(points[0]))
    method = checked(place, config_class)
    if config_class.__module__ != "__main__" and _found_at(place) is not config_class:
        raise ValueError(f"{place} is another class than the config's: give it a name of its own")
    return method


def checked(name: str, found: object, package: str = "") -> Method:
    """Return a class as a method; raises `ValueError` with the first member that it lacks."""
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
    # `promise` may stand fixed in the class: a method whose results cannot be repeated.
    known = {*fields, *(n for n in ("promise",) if hasattr(found, n))}
    if missing := [field for field in REQUIRED if field not in known]:
        raise ValueError(f"{name} lacks the field{'s' * (len(missing) > 1)} {', '.join(missing)}")
    called(name, "reading the types of its fields", get_type_hints, found)
    for field in fields.values():
        _refuse_unusable_field(name, field)
    _refuse_unusable_members(name, found, fields)
    return Method(name, found, package)


def _package_of(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


@torch_settings_kept()
def _found_at(path: str) -> object:
    module_name, _, name = path.partition(":")
    if not (module_name and name):
        raise ValueError(f"{path!r} is no place of a class: write package.module:Class")
    module = called(path, f"importing {module_name}", importlib.import_module, module_name)
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise ValueError(f"{path}: module {module_name} has no {name!r}") from error


def _refuse_untyped(name: str, found: type[object]) -> None:
    """Refuse `learning_rate = 0.1`: without a type it would be no field, and no flag."""
    constants = _CONSTANTS - {field.name for field in dataclasses.fields(found)}  # pyright: ignore[reportArgumentType]
    for parent in found.__mro__[:-1]:
        typed = {*getattr(parent, "__annotations__", {}), *constants}
        for attribute, value in vars(parent).items():
            hidden = attribute.startswith("_") or attribute.isupper() or attribute in typed
            if not hidden and isinstance(value, (*_PLAIN, tuple, list, dict)):
                raise ValueError(
                    f"{name}: {attribute} has no type, so it would be no flag: write "
                    f"{attribute}: {type(value).__name__} = {value!r}"
                )


def _refuse_unusable_field(name: str, field: "dataclasses.Field[Any]") -> None:
    if not field.init:
        raise ValueError(
            f"{name}: field {field.name} is no argument (init=False): make it a property"
        )
    if field.name == "env":
        return
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = called(name, f"making the default of {field.name}", field.default_factory)
    if default is dataclasses.MISSING:
        raise ValueError(f"{name}: field {field.name} has no default; only env has none")
    if not _fits_json(default):
        raise ValueError(
            f"{name}: field {field.name} has the default {default!r:.80}; config.json can hold "
            "text, numbers, true, false, none and tuples of them"
        )


def _fits_json(value: object) -> bool:
    values: tuple[object, ...] = value if isinstance(value, tuple) else (value,)
    return all(type(item) in _PLAIN for item in values)


def _refuse_unusable_pairs(name: str, goes_with: Any, fields: Container[str]) -> None:
    if not isinstance(goes_with, Mapping) or not all(map(_is_pair, goes_with.values())):
        raise ValueError(
            f"{name}: GOES_WITH must map fields to pairs of another field and a tuple of its "
            "values as text"
        )
    both = [*goes_with, *(other for other, _ in goes_with.values())]
    if unknown := [str(field) for field in both if field not in fields]:
        raise ValueError(f"{name}: GOES_WITH names no field {', '.join(unknown)}")


def _is_pair(found: Any) -> bool:
    return (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[1], tuple)
        and all(isinstance(value, str) for value in found[1])
    )


def _is_pair_of_text(found: Any) -> bool:
    return isinstance(found, tuple) and [*map(type, found)] == [str, str]


def _refuse_unusable_members(name: str, found: type[object], fields: Container[str]) -> None:
    """Refuse optional members of another form than `MethodConfig` describes."""
    presets: Any = getattr(found, "PRESETS", {})
    if not isinstance(presets, Mapping) or not all(
        isinstance(preset, Mapping) for preset in presets.values()
    ):
        raise ValueError(f"{name}: PRESETS must map environment ids to fields and their values")
    for env_id, preset in presets.items():
        if unknown := sorted(field for field in preset if field not in fields):
            raise ValueError(f"{name}: the preset of {env_id} has no field {', '.join(unknown)}")
        if "env" in preset:
            raise ValueError(f"{name}: the preset of {env_id} sets env, which is its key")
    _refuse_unusable_pairs(name, getattr(found, "GOES_WITH", {}), fields)
    beside: Any = getattr(found, "PRESETS_WITH", {})
    if not isinstance(beside, Mapping) or not all(
        _is_pair_of_text(key) and callable(preset) for key, preset in beside.items()
    ):
        raise ValueError(
            f"{name}: PRESETS_WITH must map pairs of a field and its value, both text, to functions"
        )
    if unknown := sorted(field for field, _ in beside if field not in fields):
        raise ValueError(f"{name}: PRESETS_WITH names no field {', '.join(unknown)}")
    layout: Any = getattr(found, "LAYOUT", Layout)
    if not (isinstance(layout, type) and issubclass(layout, Layout)):
        raise ValueError(
            f"{name}: LAYOUT must be Layout or a class of its kind, got {layout!r:.80}"
        )
    engine: Any = getattr(found, "ENGINE", "gymnasium")
    if engine not in ("gymnasium", "envpool"):
        raise ValueError(f"{name}: ENGINE must be gymnasium or envpool, got {engine!r:.80}")
