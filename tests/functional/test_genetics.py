"""ERL's genetic algorithm on flat vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.genetics import (
    LARGEST_WEIGHT,
    Breeding,
    Mutation,
    crossed,
    layer_tensors,
    mutated,
    next_population,
    tournament_winners,
)

SHAPES = [(6, 5), (6,), (4, 6), (4,)]
SIZE = 30 + 6 + 24 + 4


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def numbered(members: int) -> np.ndarray:
    """Member i holds i everywhere."""
    return np.repeat(np.arange(members, dtype=np.float32)[:, None], SIZE, axis=1)


def test_a_crossing_swaps_whole_rows():
    children = crossed(np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32), SHAPES, rng())
    for child in children:
        for matrix in (child[:30].reshape(6, 5), child[36:60].reshape(4, 6)):
            assert all(len(set(row.tolist())) == 1 for row in matrix)
        assert 0 < child.sum() < SIZE


@given(st.integers(0, 1000))
def test_a_crossing_leaves_the_parents_and_invents_nothing(seed: int):
    one, other = rng(1).standard_normal((2, SIZE)).astype(np.float32)
    kept = one.tobytes(), other.tobytes()
    for child in crossed(one, other, SHAPES, rng(seed)):
        assert ((child == one) | (child == other)).all()
    assert (one.tobytes(), other.tobytes()) == kept


@given(st.integers(0, 1000))
def test_a_mutation_spares_biases_and_most_weights(seed: int):
    vector = np.ones(SIZE, np.float32)
    child = mutated(vector, SHAPES, rng(seed), Mutation())
    changed = child != vector
    assert not changed[30:36].any()
    assert not changed[60:].any()
    # fewer than ⌈0.1 * 30⌉ = 3 and ⌈0.1 * 24⌉ = 3
    assert changed[:30].sum() <= 2
    assert changed[36:60].sum() <= 2


def test_mutations_have_the_strengths_of_erl():
    """Weights of 2: N(2, 0.2²) nine times in ten; N(2, 20²) or N(0, 1) once in twenty each."""
    shape, weights = (100, 100), np.full(10_000, 2.0, np.float32)
    drawn: list[float] = []
    for seed in range(40):
        child = mutated(weights, [shape], rng(seed), Mutation())
        drawn += child[child != weights].tolist()
    values = np.array(drawn)
    near = np.abs(values - 2.0) < 1.0
    assert values[near].std() == pytest.approx(0.2, rel=0.1)
    # beyond 7 is 5 % * P(|N(0, 20)| > 5) = 5 % * 0.803 almost alone
    assert np.mean(np.abs(values - 2.0) > 5.0) == pytest.approx(0.05 * 0.803, rel=0.15)


def test_no_weight_grows_without_bound():
    weights = np.full(10_000, 1e6, np.float32)
    child = mutated(weights, [(100, 100)], rng(4), Mutation(fraction=1.0, super_strength=1e3))
    assert (child != weights).any()
    assert np.abs(child).max() <= LARGEST_WEIGHT


def test_the_best_ranked_wins_a_tournament():
    assert tournament_winners([7, 3, 5], rng(), count=50, size=30) == [7]
    assert tournament_winners([7, 3, 5], rng(), count=500, size=1) == [7, 3, 5]


@given(st.integers(0, 500), st.integers(2, 12), st.floats(0.0, 0.9))
def test_elites_live_on_unchanged_in_the_places_of_others(seed: int, members: int, fraction: float):
    population, fitness = numbered(members), rng(seed).standard_normal(members)
    breeding = Breeding(elite_fraction=fraction)
    following, copies = next_population(population, fitness, SHAPES, rng(seed), breeding)
    elites = np.argsort(-fitness)[: breeding.elites(members)].tolist()
    assert following.shape == population.shape
    assert len(set(copies)) == len(copies) >= 1
    assert not set(copies) & set(elites)
    for place, elite in zip(copies, elites, strict=False):
        assert (following[place] == elite).all()
    assert (population == numbered(members)).all()


def test_without_mutation_everybody_descends_from_the_fit():
    population, fitness = numbered(10), np.arange(10.0)
    breeding = Breeding(elite_fraction=0.2, mutation_probability=0.0)
    means = [
        next_population(population, fitness, SHAPES, rng(seed), breeding)[0].mean()
        for seed in range(20)
    ]
    assert min(means) > 4.5  # the parents' mean
    assert np.mean(means) > 6.0


def test_where_too_few_are_left_over_winners_give_way_and_no_elite():
    breeding = Breeding(elite_fraction=0.5, tournament_size=1, mutation_probability=0.0)
    for seed in range(50):
        following, copies = next_population(
            numbered(4), np.arange(4.0), SHAPES, rng(seed), breeding
        )
        assert len(copies) == 2
        assert not set(copies) & {2, 3}
        assert sorted(following[:, 0].tolist()) == [2.0, 2.0, 3.0, 3.0]


def test_a_matrix_stored_by_input_is_crossed_neuron_by_neuron():
    sizes = (4, 3, 2)
    shapes = layer_tensors(sizes)
    count = 5 * 3 + 4 * 2
    one, other = np.zeros(count, np.float32), np.ones(count, np.float32)
    mixed = 0
    for seed in range(20):
        for child in crossed(one, other, shapes, np.random.default_rng(seed)):
            for stored in (child[:12].reshape(4, 3), child[15:21].reshape(3, 2)):
                # Each column, a neuron's weights, is of one parent.
                assert np.all(stored == stored[0])
                mixed += len(set(stored[0].tolist())) > 1
    assert mixed > 0
