"""Replicas of es and ars: the driver's bits from scalars, whatever the order and the threads."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drumline import seeding
from drumline.policies.spec import REFERENCE
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.runtime.cluster.replicas import Record, UpdateLog, digest_of
from drumline.tasks import Evaluate, Evaluation
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import SearchLayout
from drumline.training.replicas import SearchReplica, TellingStrategy
from drumline.types import Moments

SMALL = ES(
    env="InvertedPendulum-v5",
    population_size=8,
    std=0.1,
    obs_stat_probability=0.5,
    noise_table_size=1 << 16,
    hidden=(8,),
)
SEARCHES: dict[str, ES | ARS] = {
    "es": SMALL,
    "counter noise": replace(SMALL, noise="counter"),
    "capped episodes": replace(SMALL, episode_cap="mean:2"),
    "perturbed subsets": replace(SMALL, subset="perturb", optimizer="sgd"),
    "used subsets and steps that shrink": replace(SMALL, subset="use", learning_rate_decay=0.9),
    "members of their own": replace(SMALL, mirrored=False),
    "an odd number of members": replace(SMALL, mirrored=False, population_size=7, subset="use"),
    "a reference batch": replace(SMALL, normalization="virtual-batch"),
    "a subspace": replace(SMALL, subspace=7),
    "common seeds, without moments": replace(SMALL, common_seeds=True, normalize=False),
    "an objective": ES(objective="objectives:noisy_sphere", dimensions=6, noise_table_size=1 << 12),
    "ars": ARS(env="InvertedPendulum-v5", population_size=8, noise_table_size=1 << 16),
    "ars over an objective": ARS(
        objective="objectives:noisy_sphere",
        dimensions=6,
        population_size=8,
        noise_table_size=1 << 12,
    ),
}
GENERATIONS = 5


def result(task: Evaluate, observed: int) -> Evaluation:
    """A result as a worker might have it, drawn from the task's seed."""
    rng = seeding.generator(task.seed, "result")
    moments = None
    if task.contributes and observed:
        moments = Moments(7.0, rng.standard_normal(observed), rng.random(observed))
    gained = float(rng.standard_normal())
    length = int(rng.integers(1, 99))
    key = task.noise_key
    return Evaluation(
        task.version, task.member, task.sign, key, task.std, gained, gained, length, moments, b""
    )


def recipe_of(config: ES | ARS) -> GenerationalRecipe:
    return config.build(SearchLayout(pool="inline"))


def replica_of(recipe: GenerationalRecipe, threads: int) -> SearchReplica:
    """A replica as another node makes it: from a pickle, with a noise table of its own."""
    memory = {} if recipe.shared is None else recipe.shared.arrays
    shared = {name: np.zeros_like(array) for name, array in memory.items()}
    made: Any = pickle.loads(pickle.dumps(recipe.replica))(shared, threads)
    return made


def generations(recipe: GenerationalRecipe, strategy: TellingStrategy, count: int) -> Iterator[Any]:
    """Tell `count` generations, members in another order each time."""
    assert recipe.replica is not None
    observed = recipe.replica.observation_size  # pyright: ignore[reportFunctionMemberAccess]
    for generation in range(count):
        rest = recipe.config.population_size - 6
        tasks = [
            *strategy.ask(6),
            *strategy.ask(rest),
        ]  # chunks as blocks of a generation are asked
        results = [result(task, observed) for task in tasks]
        order = np.random.default_rng(generation).permutation(len(results))
        yield strategy.tell([results[k] for k in order])


def log_of(recipe: GenerationalRecipe) -> UpdateLog:
    assert recipe.replica is not None
    return UpdateLog(recipe.replica, 0, recipe.state())


def same(replica: SearchReplica, strategy: Any) -> bool:
    ours, theirs = dict(strategy.published()), dict(replica.published())
    return digest_of(ours) == digest_of(theirs)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_replica_has_the_drivers_bits_after_every_generation(name: str, threads: int):
    recipe = recipe_of(SEARCHES[name])
    log = log_of(recipe)
    replica = replica_of(recipe, threads)
    strategy = TellingStrategy(recipe.strategy, log)
    replica.load(log.route(None).base or pytest.fail("a log has a base"))
    before = digest_of(dict(strategy.published()))
    log.watch(lambda: replica.apply(log.route(log.version - 1).records[0].data))
    for _ in generations(recipe, strategy, GENERATIONS):
        assert same(replica, strategy)
    assert digest_of(dict(strategy.published())) != before


@pytest.mark.parametrize("name", ["es", "ars"])
def test_a_replica_that_joins_has_the_bits_of_one_that_was_there(name: str):
    recipe = recipe_of(SEARCHES[name])
    log = log_of(recipe)
    strategy = TellingStrategy(recipe.strategy, log)
    for number, _ in enumerate(generations(recipe, strategy, 2 * GENERATIONS)):
        if number == GENERATIONS:
            log.renew(log.version, recipe.state())
        joined, route = replica_of(recipe, 1), log.route(None)
        joined.load(route.base or pytest.fail("a log has a base"))
        for record in route.records:
            joined.apply(record.data)
        assert same(joined, strategy)


def test_a_replica_has_the_reference_batch_of_the_checkpoint_and_not_one_of_its_own():
    recipe = recipe_of(SEARCHES["a reference batch"])
    recipe.fixed[REFERENCE][3] += 1.0  # as of a checkpoint whose random play was another
    shared = {
        name: np.zeros_like(a) for name, a in (recipe.shared or pytest.fail("none")).arrays.items()
    }
    made: Any = pickle.loads(pickle.dumps(recipe.replica))(shared, 1)
    log = log_of(recipe)
    strategy = TellingStrategy(recipe.strategy, log, recipe.state)
    for _ in generations(recipe, strategy, GENERATIONS):
        log.renew(log.version, recipe.state())
    made.load(log.route(None).base)
    assert shared[REFERENCE].tobytes() == recipe.fixed[REFERENCE].tobytes()
    assert same(made, strategy)


def test_records_do_not_grow_with_the_parameters_and_moments_are_counted_apart():
    sizes: list[tuple[int, int]] = []
    for hidden in [(8,), (64, 64)]:
        recipe = recipe_of(replace(SMALL, hidden=hidden))
        log, records = log_of(recipe), list[Record]()
        log.watch(lambda log=log, records=records: records.append(log.route(None).records[-1]))
        for _ in generations(recipe, TellingStrategy(recipe.strategy, log), GENERATIONS):
            pass
        assert len(records) == GENERATIONS
        sizes.append((sum(len(r.data) for r in records), sum(r.moments_bytes for r in records)))
    assert sizes[0] == sizes[1]
    total, moments = sizes[0]
    assert moments > 0
    assert moments % (12 + 16 * 4) == 0  # the pendulum has four observations
    assert total == moments + GENERATIONS * (36 + 24 * 8)


def test_the_log_takes_a_new_base_before_its_records_outgrow_it():
    recipe = recipe_of(replace(SMALL, hidden=(2,)))
    log = log_of(recipe)
    strategy = TellingStrategy(recipe.strategy, log)
    longest = 0
    for _ in generations(recipe, strategy, 4 * GENERATIONS):
        longest = max(longest, len(log.route(None).records))
        assert not log.is_long
    assert longest < 4 * GENERATIONS
    assert log.version == 4 * GENERATIONS
