"""The environment that a config names, with the limit of its episodes."""

import json
import logging
from functools import cache

from drumline.envs.environment import Engine, EnvironmentProblem, EnvironmentSpec
from drumline.envs.football_frames import GAME_BYTES, never_freed
from drumline.envs.make import is_gymnasiums, resolve_engine
from drumline.recipes.families import Config
from drumline.recipes.named_objects import arguments_of

_LOGGER = logging.getLogger("drumline")


def engine_of(config: Config, prefer: Engine = "gymnasium") -> Engine:
    """Return the engine of a config's environment; `prefer` is the one that `auto` takes first.

    `auto` takes Gymnasium's where EnvPool's cannot have the observations flattened, or takes no
    such arguments.
    """
    named: str = getattr(config, "engine", "auto")
    engine = resolve_engine(config.env, named, prefer)
    if named != "auto" or engine == "gymnasium" or not is_gymnasiums(config.env):
        return engine
    options = arguments_of(config)
    flat: bool = getattr(config, "flatten_observations", False)
    if flat or (options and _refused(config.env, json.dumps(options))):
        return "gymnasium"
    return engine


@cache
def _refused(env_id: str, options: str) -> bool:
    from drumline.envs.envpool_package import envpool_with, known_spec

    try:
        known_spec(envpool_with(env_id), env_id, json.loads(options))
    except EnvironmentProblem:
        _LOGGER.warning(
            "%s: EnvPool's takes no such --env-kwargs %s, so Gymnasium's is taken "
            "(--engine gymnasium)",
            env_id,
            options,
        )
        return True
    return False


def chosen_environment(config: Config, prefer: Engine = "gymnasium") -> EnvironmentSpec:
    """Return the description of a config's environment; `prefer` is the engine of `auto`.

    `frame_skip`, `max_episode_steps`, counted in env steps, `env_kwargs` and
    `flatten_observations` are taken where a config has them.
    """
    skip: int = getattr(config, "frame_skip", 1)
    limit: int = getattr(config, "max_episode_steps", 0)
    options = arguments_of(config)
    if limit:
        options["max_episode_steps"] = limit * skip
    engine = engine_of(config, prefer)
    flat: bool = getattr(config, "flatten_observations", False)
    return EnvironmentSpec(config.env, engine, skip, options, flat)


def environment_of_episodes(config: Config) -> EnvironmentSpec:
    """Return the same for a method that makes an environment anew for each of EnvPool's episodes.

    ValueError for one whose memory would never come back.
    """
    spec = chosen_environment(config)
    if never_freed(spec):
        raise ValueError(
            f"{spec.id} would keep {GAME_BYTES >> 20} MiB for every episode, because EnvPool frees "
            "no game of football: hts, ppo, a2c and impala play on in their games"
        )
    return spec
