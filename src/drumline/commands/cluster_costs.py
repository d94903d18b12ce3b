"""Costs of `--parameters broadcast` and `replicas` on a cluster, from a timed update."""

import dataclasses
from typing import Any

import numpy as np

from drumline.commands import timings
from drumline.functional.cluster_speed import Cluster, GenerationCosts, broadcast, replicas
from drumline.functional.perturbation import TILE
from drumline.recipes.searched_policy import uses_table
from drumline.runs.scalar_log import ToldGeneration, ToldMember, encoded
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.replicas import SearchReplica
from drumline.types import Moments

_TABLE = 1 << 24
"""Largest noise table that an update is timed with: larger than caches, filled in a moment."""


def costs_on(cluster: Cluster, recipe: GenerationalRecipe, noise: str) -> dict[str, Any]:
    """Return both ways' bytes and seconds of a generation; `noise` is that of the config."""
    costs = _timed(recipe, noise)
    ways = {"broadcast": broadcast(costs, cluster), "replicas": replicas(costs, cluster)}
    return {
        "nodes": cluster.nodes,
        "node_cores": cluster.cores,
        "gigabits_per_second": cluster.bits_per_second / 1e9,
        **costs._asdict(),
        **{name: way._asdict() for name, way in ways.items()},
        "cheaper": min(ways, key=lambda name: ways[name].seconds),
    }


def _timed(recipe: GenerationalRecipe, noise: str) -> GenerationCosts:
    """Time the update of a replica, told as many members as a generation has at least."""
    published = recipe.strategy.published()
    size = published["parameters"].size
    told = encoded(_example(recipe))
    spec: Any = recipe.replica
    table = max(size, min(_TABLE, spec.config.noise_table_size))
    config = dataclasses.replace(spec.config, noise=noise, noise_table_size=table)
    shared = {"noise": np.empty(table, np.float32)} if uses_table(config, size) else {}
    replica: SearchReplica = dataclasses.replace(spec, config=config)(shared, 1)
    state = recipe.strategy.state()

    def update() -> None:
        replica.load(state)
        replica.apply(told)

    def load() -> None:
        replica.load(state)

    seconds = timings.seconds_each(update) - timings.seconds_each(load)
    return GenerationCosts(
        update_core_seconds=max(0.0, seconds),
        update_tiles=-(-size // TILE),
        parameter_bytes=sum(array.nbytes for array in published.values()),
        scalar_bytes=len(told),
    )


def _example(recipe: GenerationalRecipe) -> ToldGeneration:
    """Return a generation with drawn returns, and moments where its tasks contribute them."""
    rng = np.random.default_rng(0)
    published = recipe.strategy.published()
    observed = published["observation_mean"].size if "observation_mean" in published else 0
    members: list[ToldMember] = []
    for task in recipe.strategy.ask(recipe.plan.population_size):
        moments = None
        if task.contributes and observed:
            moments = Moments(1000.0, rng.standard_normal(observed), np.ones(observed))
        gained = float(rng.standard_normal())
        members.append(ToldMember(gained, gained, 1000, moments))
    return ToldGeneration(0, tuple(members))
