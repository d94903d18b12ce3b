"""Making environments: the only place where wrappers are chosen and ordered."""

import copy
import dataclasses
import difflib
import importlib
import importlib.metadata
import importlib.util
import sys
from typing import Any

import numpy as np

from drumline.envs.environment import (
    INSTALL_ENVPOOL,
    Engine,
    Environment,
    EnvironmentProblem,
    EnvironmentSpec,
    MadeEnvironment,
    refuse_flatten,
)
from drumline.envs.interface import CheckedEnvironment
from drumline.envs.lean_steps import LeanEnvironment
from drumline.envs.observation_spaces import check_array, check_observations
from drumline.envs.step_choice import step_choice
from drumline.errors import import_named, words_of
from drumline.functional.torch_threads import torch_settings_kept

_NAMED = 8
"""Environments of a module that a message names at most."""


@torch_settings_kept()
def make_environment(spec: EnvironmentSpec, render_mode: str | None = None) -> MadeEnvironment:
    """Make the environment without Gymnasium's own wrappers: the episode loop counts the limit."""
    if spec.engine == "envpool":
        from drumline.envs.engines import EnvPoolEnvironment

        refuse_flatten(spec)
        made = EnvPoolEnvironment(spec.id, spec.options)
        environment, limit = made, made.limit
    else:
        environment, limit = _make_gymnasium(spec, render_mode)
        if spec.flatten:
            from drumline.envs.flat_observations import flattened

            environment = flattened(environment, spec.id)
    wrapped, stack = _wrapped_limit(environment), _stack(environment)
    if spec.engine == "gymnasium":
        foreign = not isinstance(environment, LeanEnvironment)
        environment = CheckedEnvironment(environment, spec.id, foreign=foreign)
    if spec.frame_skip > 1:
        from drumline.envs.frame_skip import FrameSkip

        environment = FrameSkip(environment, spec.frame_skip, limit)
        limit, wrapped = -(-limit // spec.frame_skip), -(-wrapped // spec.frame_skip)
        stack = 1
    return MadeEnvironment(environment, limit, stack, wrapped)


def lean_environment(made: Environment) -> LeanEnvironment | None:
    """Return the environment below the checks of a made one if its step is Drumline's own."""
    bare = made.checked if isinstance(made, CheckedEnvironment) else None
    return bare if isinstance(bare, LeanEnvironment) else None


def _stack(environment: Environment) -> int:
    """Return the number of byte frames that the outermost wrapper stacks; 1 if it stacks none."""
    from gymnasium.wrappers import FrameStackObservation

    # A subclass may return the frames in another order.
    if type(environment) is FrameStackObservation and environment.padding_type == "reset":
        return environment.stack_size if environment.observation_space.dtype == np.uint8 else 1
    return 1


def check_spaces(environment: Environment, env_id: str) -> None:
    """Raise EnvironmentProblem for spaces that no policy serves, with a way to convert them."""
    import gymnasium

    spaces = gymnasium.spaces
    check_observations(environment.observation_space, env_id)
    action = environment.action_space
    if isinstance(action, spaces.Discrete):
        return
    if isinstance(action, spaces.Box) and np.issubdtype(action.dtype, np.floating):
        check_array(action, env_id, "actions")
        return
    other = (
        "train it with hts, a2c, ppo or impala, or wrap it"
        if isinstance(action, spaces.MultiDiscrete) and action.nvec.ndim == 1
        else "wrap the environment"
    )
    raise EnvironmentProblem(
        f"{env_id} has {type(action).__name__} actions ({action}); this method serves Discrete "
        f"and Box of floats: {other} and name your factory as module:factory"
    )


def resolve_engine(env_id: str, engine: str, prefer: Engine = "gymnasium") -> Engine:
    """Return the engine: the preferred one if it has the id, else the other."""
    if engine in ("gymnasium", "envpool"):
        return engine  # pyright: ignore[reportReturnType]
    import gymnasium

    if ":" in env_id:
        return "gymnasium"
    if prefer == "gymnasium" and env_id in gymnasium.registry:
        return "gymnasium"
    if env_id in (_envpool_ids() or ()):
        return "envpool"
    return "gymnasium"


def is_gymnasiums(env_id: str) -> bool:
    """Return whether Gymnasium has an environment of that id."""
    import gymnasium

    return env_id in gymnasium.registry


def refuse_registered_here(env_id: str) -> None:
    """Raise EnvironmentProblem for an id that only this process has registered.

    A worker process knows the ids of Gymnasium, of packages that register theirs with it, and those
    of a module that is named with the id.
    """
    import gymnasium

    known = gymnasium.registry.get(env_id)
    if known is None or ":" in env_id:
        return
    entry = known.entry_point
    module = (entry if isinstance(entry, str) else getattr(entry, "__module__", "")) or ""
    place = module.partition(":")[0]
    if place.partition(".")[0] in {"gymnasium", "ale_py", *_plugins()}:
        return
    where = "the script or notebook itself" if place == "__main__" else place
    advice = (
        f"put it and its registration into a module, and name both, as in my_envs:{env_id}"
        if place == "__main__"
        else f"name its class, {_place_of_entry(entry)}, or, if a module registers it when it is "
        f"imported, that module and the id, as in my_envs:{env_id}"
    )
    raise EnvironmentProblem(
        f"{env_id!r} of {where} is registered in this process alone, and workers are processes of "
        f'their own: {advice}; or use workers="inline" (--pool inline)'
    )


def _place_of_entry(entry: Any) -> str:
    """Return module:name of a registered environment's class or function."""
    return entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"


def _plugins() -> set[str]:
    """Return the packages that register environments when Gymnasium is imported."""
    points = importlib.metadata.entry_points(group="gymnasium.envs")
    return {point.module.partition(".")[0] for point in points}


def known_limit(spec: EnvironmentSpec) -> int:
    """Return the time limit of an environment that this process has made before; 0: none known.

    A limit that a factory sets in its own code is not known here.
    """
    import gymnasium

    limit: int = spec.options.get("max_episode_steps", 0)
    if not limit and spec.engine == "envpool":
        from drumline.envs.envpool_package import envpool_with, known_spec, time_limit

        limit = time_limit(known_spec(envpool_with(spec.id), spec.id, spec.options))
    elif not limit:
        known = gymnasium.registry.get(spec.id.rpartition(":")[2])
        limit = (known.max_episode_steps or 0) if known is not None else 0
    return -(-limit // spec.frame_skip)


def load_factory(path: str) -> Any:
    """Return the object named `module:name`; None if the module has no such attribute."""
    module_name, _, name = path.partition(":")
    if module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise EnvironmentProblem(
            f"environment {path!r}: name the module without .py, as in {dotted}:{name}"
        )
    if not module_name or module_name.startswith("."):
        raise EnvironmentProblem(
            f"environment {path!r} names no module: write package.module:factory, or an id "
            "without the colon"
        )
    module = import_named(f"environment {path!r}", module_name, EnvironmentProblem)
    return getattr(module, name, None)


def _make_gymnasium(spec: EnvironmentSpec, render_mode: str | None) -> tuple[Environment, int]:
    import gymnasium

    from drumline.envs import atari

    options = copy.deepcopy(dict(spec.options))  # a constructor may change what it gets
    if render_mode is not None:
        options["render_mode"] = render_mode
    limit = options.pop("max_episode_steps", None)
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise EnvironmentProblem(
            f"max_episode_steps must be a whole number of 1 or more, got {limit!r}"
        )
    env_id = spec.id
    if ":" in env_id:
        factory = load_factory(env_id)
        if factory is not None:
            return _call_factory(env_id, factory, options, limit)
        module_name, _, env_id = env_id.partition(":")
        if env_id not in gymnasium.registry:
            raise EnvironmentProblem(_absent(module_name, env_id))
    is_atari = env_id.startswith("ALE/")
    if is_atari:
        atari.register(env_id)
    try:
        known = gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise EnvironmentProblem(_unknown(env_id, str(error))) from error
    known = dataclasses.replace(known, order_enforce=False)
    try:
        if is_atari:
            made = atari.make(known, options)
        else:
            made = gymnasium.make(known, max_episode_steps=-1, disable_env_checker=True, **options)
    except (Exception, SystemExit) as error:
        raise EnvironmentProblem(
            f"environment {spec.id!r} cannot be made: {words_of(error)}"
        ) from error
    if limit is not None:  # an entry point or a registered wrapper may count one of its own
        made = _without_time_limits(made)
    if render_mode is None and not is_atari:
        lean, _ = step_choice(known, options)
        made = made if lean is None else lean(made)
    return made, limit or known.max_episode_steps or 0


def _call_factory(
    path: str, factory: Any, options: dict[str, Any], limit: int | None
) -> tuple[Environment, int]:
    """Call a user's factory and take Gymnasium's outermost wrappers off.

    A TimeLimit below a wrapper of the user's stays, unless another limit is given.
    """
    import gymnasium

    try:
        made = factory(**options)
    except (Exception, SystemExit) as error:
        raise EnvironmentProblem(
            f"environment {path!r} cannot be made: {words_of(error)}"
        ) from error
    if not isinstance(made, gymnasium.Env):
        raise EnvironmentProblem(
            f"environment {path!r} made a {type(made).__name__}, not a gymnasium.Env"
        )
    bare, own = _bare(made)
    return (bare, own) if limit is None else (_without_time_limits(bare), limit)


def _bare(made: Any) -> tuple[Any, int]:
    """Return the environment below Gymnasium's outermost wrappers, and their time limit (0: none).

    The episode loop and the lanes count the limit, begin each episode with a reset, and check the
    first one.
    """
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    limits: list[int] = []
    while type(made) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        if type(made) is TimeLimit:
            limits.append(made._max_episode_steps)  # pyright: ignore[reportPrivateUsage]
        made = made.env
    return made, min(limits, default=0)


def _without_time_limits(made: Any) -> Any:
    """Remove every TimeLimit from a chain of wrappers, so that a longer limit can be reached."""
    from gymnasium.wrappers import TimeLimit

    while isinstance(made, TimeLimit):
        made = made.env
    outer: Any = made
    while hasattr(outer, "env"):
        if isinstance(outer.env, TimeLimit):
            outer.env = outer.env.env
        else:
            outer = outer.env
    return made


def _wrapped_limit(environment: Any) -> int:
    """Return the smallest limit that a TimeLimit in a chain of wrappers counts; 0 without one."""
    from gymnasium.wrappers import TimeLimit

    limits: list[int] = []
    while environment is not None:
        if isinstance(environment, TimeLimit):
            limits.append(environment._max_episode_steps)  # pyright: ignore[reportPrivateUsage]
        environment = getattr(environment, "env", None)
    return min(limits, default=0)


def _envpool_ids() -> tuple[str, ...] | None:
    try:
        envpool = importlib.import_module("envpool")
    except ImportError:
        return None
    return tuple(envpool.list_all_envs())


def _absent(module_name: str, name: str) -> str:
    """Return a sentence about a module without this factory, with the environments that it has."""
    import gymnasium

    there = [
        other
        for other, value in vars(sys.modules[module_name]).items()
        if isinstance(value, type) and issubclass(value, gymnasium.Env)
    ]
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"; did you mean {module_name}:{near[0]}?" if near else ""
    if there and not near:
        hint = f"; its environments are {', '.join(there[:_NAMED])}"
    return (
        f"environment '{module_name}:{name}': module {module_name} has no {name!r} and registers "
        f"no environment of that id{hint}"
    )


def _unknown(env_id: str, reason: str) -> str:
    import gymnasium

    first = reason.strip().splitlines()[0].rstrip(".") if reason.strip() else "not registered"
    said = f"unknown environment {env_id!r} ({first})"
    known, others = list(gymnasium.registry), _envpool_ids()
    if others is None:
        near = _nearest(env_id, known, cutoff=0.75)  # others may be EnvPool's
        return (
            f"{said}; EnvPool, which has Atari, gfootball/… and more ids, is not installed: "
            f"{INSTALL_ENVPOOL}{near}"
        )
    if env_id in others:
        return f"{said}; EnvPool has it (--engine envpool)"
    module, _, name = env_id.rpartition(".")
    if name.isidentifier() and _can_be_imported(module):
        return f"{said}; did you mean {module}:{name}?"
    return said + _nearest(env_id, list(dict.fromkeys([*known, *others])), cutoff=0.6)


def _can_be_imported(module: str) -> bool:
    """Return whether a module of that name can be found, without importing it."""
    try:
        return bool(module) and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _nearest(env_id: str, known: list[str], cutoff: float) -> str:
    """Return a hint with the ids most like `env_id`; empty if there are none."""
    close = difflib.get_close_matches(env_id, known, n=3, cutoff=cutoff)
    if not close:
        lowered = {name.lower(): name for name in known}
        matches = difflib.get_close_matches(env_id.lower(), lowered, n=3, cutoff=cutoff)
        close = [lowered[name] for name in matches]
    return f"; did you mean {' or '.join(close)}?" if close else ""
