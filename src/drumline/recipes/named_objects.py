"""Settings that Python may give as objects: classes and functions by their names, dicts as JSON,
NumPy's numbers as Python's own.

A config holds text, numbers and tuples alone, because config.json and other processes read it.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from drumline.training.value_kinds import refuse_other_kinds

CODE = ("env", "policy", "network", "strategy", "objective", "initial")
"""Fields for which Python may give a function or a class in place of its `module:name`."""
_FIXED = {
    "max_episode_steps": "--max-episode-steps",
    "render_mode": "drumline enjoy",
    **dict.fromkeys(("num_envs", "seed", "num_threads", "env_type", "batch_size"), "the run"),
}
"""Argument of an environment's constructor → the flag, command or part that gives it."""


def name_objects(config: Any) -> None:
    """Replace objects in a config's fields by what config.json can hold; raises `ValueError`."""
    for field in {each.name for each in dataclasses.fields(config)} & {*CODE}:
        value = getattr(config, field)
        if not isinstance(value, str):
            object.__setattr__(config, field, place_of(field, value))
    given = getattr(config, "env_kwargs", "")
    if given:
        arguments = _arguments(given)
        # One text for one set of arguments, however it was typed.
        text = json.dumps(arguments, sort_keys=True) if arguments else ""
        object.__setattr__(config, "env_kwargs", text)
    start = getattr(config, "start_from", "")
    if not isinstance(start, str):
        object.__setattr__(config, "start_from", _path_of(start))
    for name, value in _plain_numbers(config).items():
        object.__setattr__(config, name, value)
    refuse_other_kinds(config)  # before a comparison of a text with a number raises TypeError


def _path_of(start: Any) -> str:
    """Return the path of a Run or of a file."""
    path = getattr(start, "path", start)
    if not isinstance(path, os.PathLike):
        raise ValueError(
            f"start_from takes a run or the path of a policy file, got a {type(start).__qualname__}"
        )
    return os.fspath(path)


def with_plain_numbers(config: Any) -> Any:
    """Return a config or a layout with Python's numbers, and tuples of them, for NumPy's."""
    plain = _plain_numbers(config)
    return dataclasses.replace(config, **plain) if plain else config


def _plain_numbers(config: Any) -> dict[str, Any]:
    """Return the fields with NumPy's numbers, and Python's in place of them."""
    given = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: _plain(value) for name, value in given.items() if _is_numpys(value)}


def _is_numpys(value: Any) -> bool:
    inside: tuple[Any, ...] | list[Any] = value if isinstance(value, (tuple, list)) else ()
    return isinstance(value, (np.generic, np.ndarray)) or any(map(_is_numpys, inside))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, (np.ndarray, tuple, list)):
        return tuple(map(_plain, value))
    return value


def arguments_of(config: Any) -> dict[str, Any]:
    """Return the arguments of an environment's constructor that a config gives."""
    text: str = getattr(config, "env_kwargs", "")
    return _arguments(text) if text else {}


def place_of(field: str, value: Any) -> str:
    """Return `module:name` of a function or a class; ValueError if it cannot be found by that."""
    if not callable(value):
        made = ": an environment that is made already cannot be sent to workers"
        raise ValueError(
            f"{field} takes a name, or a class or function at the top of a module, got a "
            f"{type(value).__qualname__}{made if field == 'env' else ''}"
        )
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not (module and name) or "<" in name or "." in name:
        more = "; its arguments are --env-kwargs" if field == "env" else ""
        raise ValueError(
            f"{field}: {value!r:.80} has no name by which a worker could import it: make it a "
            f"function or a class at the top of a module{more}"
        )
    if getattr(sys.modules.get(module), name, value) is not value:
        raise ValueError(
            f"{field}: {module}:{name} is another object than the one given: give it a name of "
            "its own"
        )
    return f"{module}:{name}"


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise ValueError(
                f"--env-kwargs {given!r:.80} is no JSON ({error}): write an object, as in "
                "'{\"forward_reward_weight\": 2}'"
            ) from None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError(
            "--env-kwargs takes one object with the constructor's arguments by name, "
            f"got {given!r:.80}"
        )
    for name in given:
        if name in _FIXED:
            raise ValueError(f"--env-kwargs has {name}, which {_FIXED[name]} gives: leave it out")
    try:
        json.dumps(given, allow_nan=False)
        _refuse_names_of_no_text(given)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"--env-kwargs can hold what JSON can, text, numbers, true, false, null, lists and "
            f"objects: {error}"
        ) from None
    return dict(given)


def _refuse_names_of_no_text(value: Any) -> None:
    """Raise `TypeError` for names of objects, at any depth, that JSON would turn into text."""
    if isinstance(value, Mapping):
        for name, inside in value.items():
            if not isinstance(name, str):
                raise TypeError(f"names in an object are text, got {name!r}")
            _refuse_names_of_no_text(inside)
    elif isinstance(value, (list, tuple)):
        for inside in value:
            _refuse_names_of_no_text(inside)
