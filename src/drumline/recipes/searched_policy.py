"""Parts of every search over policy parameters: environment, policy and noise from a config."""

import math
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import check_spaces, make_environment, resolve_engine
from drumline.envs.packages import environment_packages, top_package
from drumline.envs.reference_frames import fill_with_random_play
from drumline.functional.low_rank import LowRank, seeded_noise
from drumline.functional.perturbation import (
    ALIGNMENT,
    Noise,
    fill_table,
    place_count,
    table_noise,
)
from drumline.policies.build import refuse_frozen_parts
from drumline.policies.convolutional import NETWORKS, layer_shapes
from drumline.policies.heads import Head, parse_bins
from drumline.policies.spec import REFERENCE, PolicySpec
from drumline.protocols import PublishedLayout
from drumline.recipes.chosen_environment import chosen_environment, environment_of_episodes
from drumline.recipes.families import Searching, Space
from drumline.recipes.pictures import WITH_CONVOLUTIONS, warn_of_pictures
from drumline.runtime.shared_arrays import SharedArrays

REFERENCE_SIZE = 128
"""Size of the reference batch, as in the published implementations."""

_LEAST_PLACES = 64
_PLACES_EACH = 4
"""Slices that a table has at least, and for each member or dimension of a subspace."""

_MOST_OF_A_TABLE = 1 << 24
"""Parameters up to which --noise auto takes a table: half of one of the default size."""


def environment_and_policy(
    config: Searching,
    policy: str,
    hidden: tuple[int, ...],
    *,
    bias: bool = True,
    zero: bool = False,
) -> tuple[EnvironmentSpec, PolicySpec]:
    """Make the environment once to learn its spaces, and describe the policy that fits them."""
    spec = environment_of_episodes(config)
    with closing(make_environment(spec)) as made:
        check_spaces(made.environment, config.env)
        observations = made.environment.observation_space
        shape = tuple(observations.shape)
        head = _head(made.environment.action_space, config.action_bins)
    if policy not in ("mlp", "linear", *NETWORKS) and ":" not in policy:
        words = ", ".join(("mlp", "linear", *NETWORKS))
        raise ValueError(f"--policy {policy!r} is none of {words} and package.module:Class")
    if policy in NETWORKS:
        return spec, _on_images(config, policy, head, shape, observations.dtype)
    if config.normalization == "virtual-batch" and (policy != "mlp" or not hidden):
        given = "mlp without --hidden" if policy == "mlp" else policy
        raise ValueError(
            f"--normalization virtual-batch is of the hidden layers of --policy mlp, "
            f"{' and '.join(NETWORKS)}: --policy {given} has none that it knows"
        )
    module = policy if ":" in policy else None
    if module is None:
        others = WITH_CONVOLUTIONS
        if len(shape) == 3 and min(shape) == shape[0]:  # channels first
            others = f"--policy a3c-cnn sees places, and {others}"
        warn_of_pictures(config.env, shape, observations.dtype.str, others)
    size = math.prod(shape)
    layers = tuple(hidden) if policy == "mlp" else ()
    described = PolicySpec(
        size,
        head,
        layers,
        bias=bias,
        module=module,
        normalize=config.normalize,
        zero_init=zero,
        virtual_batch=REFERENCE_SIZE if config.normalization == "virtual-batch" else 0,
        flattened=shape if len(shape) > 1 else (),
    )
    refuse_frozen_parts(described, searches=True, differentiates=False)
    return spec, described


def _on_images(
    config: Searching, policy: str, head: Head, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> PolicySpec:
    if len(shape) != 3 or dtype != np.uint8:
        raise ValueError(
            f"--policy {policy} takes images of bytes [C, H, W], and {config.env} has {dtype} "
            f"observations of shape {list(shape)}: --policy mlp takes those"
        )
    frames = 0 if config.normalization == "none" else REFERENCE_SIZE
    spec = PolicySpec(
        math.prod(shape),
        head,
        (),
        normalize=False,
        convolutions=policy,
        image=shape,
        virtual_batch=frames,
    )
    layer_shapes(spec)  # refuses images that are too small
    return spec


def searching_packages(config: Searching, policy: str) -> tuple[str, ...]:
    """Return the packages that compute in a search: of the environment, and of a torch policy."""
    engine = resolve_engine(config.env, config.engine)
    module = ("torch", top_package(policy)) if ":" in policy else ()
    return (*environment_packages(config.env, engine), *module)


def uses_table(config: Searching, parameter_count: int) -> bool:
    """Return whether the noise of that many parameters comes from a shared table."""
    if config.noise == "auto":
        return parameter_count <= _MOST_OF_A_TABLE
    return config.noise == "table"


def make_shared(
    config: Searching,
    parameter_count: int,
    threads: int,
    policy: PolicySpec | None,
    low_rank: LowRank | None = None,
    *,
    reference: np.ndarray | None = None,
) -> tuple[Noise, SharedArrays | None]:
    """Return the noise source, and the memory of its table and of the reference batch, if any.

    `reference`: a trained policy's batch; None: one of random play.
    """
    arrays: dict[str, tuple[tuple[int, ...], str]] = {}
    if uses_table(config, parameter_count):
        _refuse_small_table(config, parameter_count)
        arrays["noise"] = ((config.noise_table_size,), "<f4")
    if policy is not None and policy.virtual_batch:
        arrays[REFERENCE] = policy.reference_layout
    if not arrays:
        return seeded_noise(config.seed, low_rank), None
    shared = SharedArrays.create(PublishedLayout(arrays))
    if reference is None:
        fill_reference(config, shared.arrays)
    else:
        shared.arrays[REFERENCE][:] = reference
    return noise_in(config, parameter_count, shared.arrays, threads, low_rank), shared


def _refuse_small_table(config: Searching, parameter_count: int) -> None:
    """Raise ValueError for a table in which most perturbations would be the same slices."""
    drawn = max(config.population_size, getattr(config, "subspace", 0))
    wanted = max(_LEAST_PLACES, _PLACES_EACH * drawn)
    if place_count(config.noise_table_size, parameter_count) < wanted:
        least = parameter_count + ALIGNMENT * (wanted - 1)
        raise ValueError(
            f"--noise-table-size {config.noise_table_size} is too small for {parameter_count} "
            f"parameters: perturbations would be the same slices of the table. Give {least} or "
            "more, or --noise counter"
        )


def fill_reference(config: Searching, shared: Mapping[str, np.ndarray]) -> None:
    """Fill the reference batch in `shared`, if there is one."""
    if REFERENCE in shared:
        fill_with_random_play(shared[REFERENCE], chosen_environment(config), config.seed)


def noise_in(
    config: Searching,
    parameter_count: int,
    shared: Mapping[str, np.ndarray],
    threads: int,
    low_rank: LowRank | None = None,
) -> Noise:
    """Return the noise source of a search; its table, if it has one, is filled in `shared`."""
    if not uses_table(config, parameter_count):
        return seeded_noise(config.seed, low_rank)
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
