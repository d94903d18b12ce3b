"""Properties that every strategy of the steady-state loop keeps, under any rule."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from algorithms.individuals_examples import same_state, search, sphere

from drumline.algorithms.async_es import AsyncES
from drumline.algorithms.cem import CEM
from drumline.algorithms.distribution_rules import OneFifthVariance, PartialMove
from drumline.algorithms.external import External
from drumline.algorithms.ga import GA
from drumline.algorithms.individuals import live
from drumline.algorithms.optimizer_packages import cma_factory, nevergrad_factory
from drumline.algorithms.optimizers import Adam
from drumline.algorithms.snes import SNES
from drumline.algorithms.steady_openai_es import SteadyOpenAIES
from drumline.functional.genetics import Breeding, Mutation
from drumline.functional.mean_updates import full_move

SIZE = 6
START = np.zeros(SIZE, np.float32)


def openai_es(seed: int) -> SteadyOpenAIES:
    adam = Adam(SIZE, learning_rate=0.1, weight_decay=0.0)
    return SteadyOpenAIES(START, adam, seed=seed, population_size=8, std=0.1)


def ga(seed: int) -> GA:
    population = 0.3 * np.random.default_rng(7).standard_normal((8, SIZE))
    breeding = Breeding(mutation=Mutation(fraction=0.6))
    return GA(population, [(2, 3)], seed=seed, breeding=breeding)


STRATEGIES: dict[str, Callable[[int], Any]] = {
    "async-es": lambda seed: AsyncES(
        START, PartialMove(full_move), OneFifthVariance(), seed=seed, initial_variance=0.05
    ),
    "snes": lambda seed: SNES(START, seed=seed, initial_std=0.2),
    "cem": lambda seed: CEM(START, seed=seed, initial_variance=0.05, damp=0.05, damp_limit=0.01),
    "openai-es": openai_es,
    "ga": ga,
}
if importlib.util.find_spec("cma"):
    STRATEGIES |= {
        "cma": lambda seed: External(
            START, cma_factory(std=0.2, full_covariance=True), seed=seed, name="cma"
        ),
        "sep-cma": lambda seed: External(
            START, cma_factory(std=0.2, full_covariance=False), seed=seed, name="sep-cma"
        ),
    }
if importlib.util.find_spec("nevergrad"):
    STRATEGIES |= {
        f"nevergrad:{name}": lambda seed, name=name: External(
            START, nevergrad_factory(name, std=0.2, budget=600), seed=seed, name=name
        )
        for name in ("DE", "OnePlusOne", "TBPSA")
    }


@pytest.fixture(params=STRATEGIES)
def make(request: pytest.FixtureRequest) -> Callable[[int], Any]:
    return STRATEGIES[request.param]


@pytest.mark.usefixtures("unchecked_shapes")
def test_it_climbs_a_sphere_out_of_order(make: Callable[[int], Any]):
    strategy = make(0)
    start = sphere(strategy.parameters)
    search(strategy, sphere, 400, in_flight=5, rng=np.random.default_rng(0))
    assert sphere(strategy.parameters) > start / 3  # from -6


def test_the_same_seed_is_the_same_search(make: Callable[[int], Any]):
    one, same, other = make(0), make(0), make(1)
    for strategy in (one, same, other):
        search(strategy, sphere, 40, in_flight=3)
    assert same_state(one, same)
    assert not same_state(one, other)


@pytest.mark.parametrize("at", [1, 23])
def test_a_loaded_strategy_goes_on_with_the_same_bits(make: Callable[[int], Any], at: int):
    """Candidates that are out when it is saved are told after it is loaded."""
    running, loaded = make(0), make(0)
    out = running.ask(3)
    search(running, sphere, at, in_flight=3)
    loaded.load(running.state())
    assert same_state(running, loaded)
    for strategy in (running, loaded):
        strategy.tell([live(candidate, sphere(candidate.vector)) for candidate in out])
        search(strategy, sphere, 30, in_flight=3)
    assert same_state(running, loaded)
    assert running.parameters.tobytes() == loaded.parameters.tobytes()


def test_its_state_is_a_copy(make: Callable[[int], Any]):
    strategy, twin = make(0), make(0)
    state = strategy.state()
    search(strategy, sphere, 30)
    twin.load(state)
    assert same_state(twin, make(0))


def test_a_state_without_one_of_its_parts_is_refused(make: Callable[[int], Any]):
    state = make(0).state()
    for kind in (state.tensors, state.counters):
        for name in kind.keys() - {"journal_asked"}:  # which earlier versions did not write
            kept = kind.pop(name)
            with pytest.raises(ValueError, match=name):
                make(0).load(state)
            kind[name] = kept


@pytest.mark.usefixtures("unchecked_shapes")
def test_it_learns_from_refined_candidates_too(make: Callable[[int], Any]):
    """Half of the candidates come back as something else, as RL actors make them."""
    strategy = make(0)
    start = sphere(strategy.parameters)
    for _ in range(400):
        (candidate,) = strategy.ask(1)
        if candidate.index % 2:
            refined = candidate.vector + np.float32(0.1) * (1 - candidate.vector)
            candidate = candidate._replace(vector=refined)
        told = live(candidate, sphere(candidate.vector), sphere(strategy.parameters))
        strategy.tell([told])
    assert sphere(strategy.parameters) > start / 3


def test_what_it_publishes_is_a_copy_of_its_parameters(make: Callable[[int], Any]):
    strategy = make(0)
    published = strategy.published()["parameters"]
    assert published.dtype == np.float32
    assert published.tobytes() == strategy.parameters.tobytes()
    published += 1
    assert published.tobytes() != strategy.parameters.tobytes()


def test_a_fitness_that_is_not_a_number_is_refused(make: Callable[[int], Any]):
    strategy = make(0)
    (candidate,) = strategy.ask(1)
    with pytest.raises(ValueError, match="fitness of individual 0 is nan"):
        strategy.tell([live(candidate, float("nan"))])
