"""The EnvPool package, which may be missing, and its list of environments."""

import difflib
import importlib
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from drumline.envs.environment import INSTALL_ENVPOOL, EnvironmentProblem

_NO_LIMIT = 2**31 - 1
"""EnvPool's number for episodes without a limit; the greatest that it accepts."""

_ALL_FAMILIES = "envpool.entry"
"""Module of EnvPool's that imports all its families, and that its package imports."""

_LIMIT_COUNTED_OUTSIDE = ("classic_control", "mujoco_gym", "box2d", "toy_text")
"""Families without a time limit besides the pool's.

Such a pool calls a termination at the limit a truncation. With the pool's limit one step later, and
the true limit counted outside of it, the two can be told apart.
"""


def envpool_with(env_id: str) -> Any:
    """Return the package, untyped for want of stubs; raises if it cannot make `env_id`."""
    try:
        envpool = importlib.import_module("envpool")
    except ImportError as error:
        raise EnvironmentProblem(
            f"{env_id!r} needs EnvPool, which is not installed: {INSTALL_ENVPOOL}, or use an id "
            "that Gymnasium has, or --engine gymnasium"
        ) from error
    if env_id not in envpool.list_all_envs():
        importlib.import_module(_ALL_FAMILIES)  # this process may have one of them alone
    known: list[str] = envpool.list_all_envs()
    if env_id not in known:
        close = difflib.get_close_matches(env_id, known, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise EnvironmentProblem(
            f"EnvPool has no environment {env_id!r}{hint} (or use --engine gymnasium)"
        )
    return envpool


def family_of(env_id: str) -> str:
    """Return the module of the family that brings an environment; empty where it is not known."""
    registry = getattr(envpool_with(env_id).registration, "registry", None)
    family, *_ = getattr(registry, "specs", {}).get(env_id, ("",))
    return family


def import_family(family: str) -> None:
    """Import EnvPool with one family alone, in a process that makes no environment of another.

    With all of them half a second goes by, most of it for drawing Jumanji's and for Matplotlib.
    """
    if not family or "envpool" in sys.modules:
        return
    with suppress(ImportError):  # `envpool_with` says what is missing, or finds the id in another
        sys.modules[_ALL_FAMILIES] = ModuleType(_ALL_FAMILIES)
        try:
            importlib.import_module("envpool")
        finally:
            del sys.modules[_ALL_FAMILIES]
        importlib.import_module(f"{family}.registration")


_MOST_STEPS = 2**31 - 2
"""Longest time limit: EnvPool counts in 32 bits, and a limit counted outside is one behind it."""


def known_spec(envpool: Any, env_id: str, options: dict[str, Any]) -> Any:
    """Return EnvPool's spec of an environment; raises for a refused option or several players."""
    if options.get("max_episode_steps", 0) > _MOST_STEPS:
        raise EnvironmentProblem(
            f"--max-episode-steps must be at most {_MOST_STEPS:,} with EnvPool, which has {env_id}"
        )
    try:
        known = envpool.make_spec(env_id, **options)
    except Exception as error:
        raise cannot_make(env_id, error) from error
    players = int(getattr(known.config, "max_num_players", 1))
    if players > 1:
        raise EnvironmentProblem(
            f"{env_id} is for {players} players; methods here train one policy for one player"
        )
    return known


def time_limit(known: Any) -> int:
    """Return the number of steps after which EnvPool cuts an episode; 0: never."""
    limit = int(getattr(known.config, "max_episode_steps", 0) or 0)
    return 0 if limit >= _NO_LIMIT else limit


def limit_counted_outside(known: Any) -> int:
    """Return the time limit of a pool if it is counted outside; 0 if the pool's flag is used."""
    family = type(known).__mro__[1].__module__
    if not any(name in family for name in _LIMIT_COUNTED_OUTSIDE):
        return 0
    return time_limit(known)


def one_step_longer(options: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return a pool's options with its time limit one step behind the one that is counted."""
    return {**options, "max_episode_steps": limit + 1}


def cannot_make(env_id: str, error: Exception) -> EnvironmentProblem:
    """Return one sentence with EnvPool's error about an environment or its options."""
    return EnvironmentProblem(f"EnvPool cannot make {env_id!r}: {type(error).__name__}: {error}")
