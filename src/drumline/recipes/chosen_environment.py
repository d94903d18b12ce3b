"""The environment that a config names, with the limit of its episodes."""

from drumline.envs.environment import Engine, EnvironmentSpec
from drumline.envs.football_frames import GAME_BYTES, never_freed
from drumline.envs.make import resolve_engine
from drumline.recipes.families import Config
from drumline.recipes.named_objects import arguments_of


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
    engine = resolve_engine(config.env, config.engine, prefer)
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
