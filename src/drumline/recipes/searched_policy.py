"""Parts of every search over policy parameters: environment, policy and noise from a config."""

import math
from collections.abc import Mapping
from contextlib import closing

import numpy as np

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import check_spaces, make_environment, resolve_engine
from drumline.envs.packages import environment_packages, top_package
from drumline.functional.perturbation import Noise, counter_noise, fill_table, table_noise
from drumline.policies.heads import Head, parse_bins
from drumline.policies.spec import PolicySpec
from drumline.protocols import PublishedLayout
from drumline.recipes.chosen_environment import chosen_environment
from drumline.recipes.families import Searching, Space
from drumline.recipes.pictures import WITH_CONVOLUTIONS, warn_of_pictures
from drumline.runtime.shared_arrays import SharedArrays


def environment_and_policy(
    config: Searching,
    policy: str,
    hidden: tuple[int, ...],
    *,
    bias: bool = True,
    zero: bool = False,
) -> tuple[EnvironmentSpec, PolicySpec]:
    """Make the environment once to learn its spaces, and describe the policy that fits them."""
    spec = chosen_environment(config)
    with closing(make_environment(spec)) as made:
        check_spaces(made.environment, config.env)
        observations = made.environment.observation_space
        shape = tuple(observations.shape)
        head = _head(made.environment.action_space, config.action_bins)
    if policy not in ("mlp", "linear") and ":" not in policy:
        raise ValueError(f"--policy {policy!r} is none of mlp, linear and package.module:Class")
    module = policy if ":" in policy else None
    if module is None:
        warn_of_pictures(config.env, shape, observations.dtype.str, WITH_CONVOLUTIONS)
    size = math.prod(shape)
    layers = tuple(hidden) if policy == "mlp" else ()
    return spec, PolicySpec(
        size, head, layers, bias=bias, module=module, normalize=config.normalize, zero_init=zero
    )


def searching_packages(config: Searching, policy: str) -> tuple[str, ...]:
    """Return the packages that compute in a search: of the environment, and of a torch policy."""
    engine = resolve_engine(config.env, config.engine)
    module = ("torch", top_package(policy)) if ":" in policy else ()
    return (*environment_packages(config.env, engine), *module)


def make_noise(
    config: Searching, parameter_count: int, threads: int
) -> tuple[Noise, SharedArrays | None]:
    """Return the noise source, and the memory of its table if it has one."""
    if config.noise == "counter":
        return counter_noise(config.seed), None
    if config.noise_table_size < parameter_count:
        raise ValueError(
            f"--noise-table-size {config.noise_table_size} is smaller than the policy's "
            f"{parameter_count} parameters: raise it or use --noise counter"
        )
    layout = PublishedLayout({"noise": ((config.noise_table_size,), "<f4")})
    shared = SharedArrays.create(layout)
    return noise_in(config, parameter_count, shared.arrays, threads), shared


def noise_in(
    config: Searching, parameter_count: int, shared: Mapping[str, np.ndarray], threads: int
) -> Noise:
    """Return the noise source of a search; its table, if it has one, is filled in `shared`."""
    if config.noise == "counter":
        return counter_noise(config.seed)
    table = shared["noise"]
    fill_table(table, config.seed, threads)
    return table_noise(table, parameter_count, config.seed)


def _head(space: Space, action_bins: str) -> Head:
    bins = parse_bins(action_bins)
    if hasattr(space, "n"):
        if bins:
            raise ValueError(f"--action-bins {action_bins!r}: the actions are discrete already")
        return Head("discrete", choices=int(space.n), start=int(space.start))
    low, high = space.low.ravel().tolist(), space.high.ravel().tolist()
    if bins and not np.all(np.isfinite([low, high])):
        raise ValueError(f"--action-bins {action_bins!r} needs finite action bounds, got {space}")
    return Head(
        "bins" if bins else "continuous",
        low=tuple(low),
        high=tuple(high),
        shape=tuple(space.shape),
        dtype=space.dtype.str,
        bins=bins,
    )
