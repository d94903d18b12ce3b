"""ERL's population by ask and tell."""

import numpy as np
import pytest

from drumline.algorithms.ga import GA
from drumline.algorithms.individuals import live
from drumline.functional.genetics import Breeding, Mutation

SHAPES = [(3, 2), (3,)]
BREEDING = Breeding(mutation_probability=1.0, mutation=Mutation(fraction=1.0))


def population(members: int = 6) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((members, 9)).astype(np.float32)


def generation(strategy: GA, fitness: list[float]) -> None:
    out = strategy.ask(len(fitness))
    strategy.tell([live(candidate, value) for candidate, value in zip(out, fitness, strict=True)])


def test_members_are_asked_round_and_round():
    strategy = GA(population(3), SHAPES, seed=0)
    vectors = [candidate.vector for candidate in strategy.ask(7)]
    assert np.array_equal(vectors, population(3)[[0, 1, 2, 0, 1, 2, 0]])


def test_the_champion_is_published_and_lives_on():
    strategy = GA(population(), SHAPES, seed=0)
    generation(strategy, [0.0, 1.0, 9.0, 2.0, 3.0, 4.0])
    assert strategy.parameters.tobytes() == population()[2].tobytes()
    assert any(member.tobytes() == population()[2].tobytes() for member in strategy.population)


def test_the_order_of_tells_changes_no_bit():
    results = []
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]):
        strategy = GA(population(), SHAPES, seed=0)
        out = strategy.ask(6)
        for place in order:
            strategy.tell([live(out[place], float(place % 4))])
        results.append(strategy.population.tobytes())
    assert results[0] == results[1]


def test_a_refined_member_is_bred_from_as_it_was_told():
    strategy = GA(population(), SHAPES, seed=0)
    out = strategy.ask(6)
    refined = [candidate._replace(vector=candidate.vector + np.float32(1)) for candidate in out]
    strategy.tell([live(candidate, float(candidate.index)) for candidate in refined])
    assert strategy.parameters.tobytes() == refined[5].vector.tobytes()


@pytest.mark.parametrize("seed", range(10))
def test_an_injected_actor_takes_a_weak_place_and_spares_the_champion(seed: int):
    strategy = GA(population(), SHAPES, seed=seed, breeding=BREEDING)
    generation(strategy, [0.0, 1.0, 9.0, 2.0, 3.0, 4.0])
    actor = np.full(9, 7.0, np.float32)
    strategy.inject(actor)
    members = [member.tobytes() for member in strategy.population]
    assert actor.tobytes() in members[:2]
    assert population()[2].tobytes() in members


def test_an_injected_actor_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="needs 9 finite parameters, got 8"):
        GA(population(), SHAPES, seed=0).inject(np.array([np.nan, *[0.0] * 8], np.float32))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="shapes hold 8 parameters, the population 9"):
        GA(population(), [(4, 2)], seed=0)


@pytest.mark.parametrize("members", [1, 4])
def test_a_population_of_elites_alone_is_refused(members: int):
    with pytest.raises(ValueError, match=f"a population of {members} needs"):
        GA(population(members), SHAPES, seed=0, breeding=Breeding(elite_fraction=1.0))
