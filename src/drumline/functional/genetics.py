"""The genetic algorithm of ERL (Khadka & Tumer 2018, arXiv 1805.07917) on flat parameters.

A vector is cut into the policy's tensors by their shapes: `(rows, columns)` for a matrix, `(rows,)`
for a bias. A row holds the weights of one neuron.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

LARGEST_WEIGHT = 1e6

Shapes = Sequence[tuple[int, ...]]


class ByInput(NamedTuple):
    """Shape of a matrix that is stored input by input: its rows are the stored columns."""

    inputs: int
    outputs: int


def layer_tensors(sizes: Sequence[int]) -> Shapes:
    """Return the tensors of a network in the layout of `policies.mlp`.

    >>> layer_tensors((3, 2))
    [ByInput(inputs=3, outputs=2), (2,)]
    """
    shapes: list[tuple[int, ...]] = []
    for inputs, outputs in pairwise(sizes):
        shapes += [ByInput(inputs, outputs), (outputs,)]
    return shapes


@dataclass(frozen=True)
class Mutation:
    """Settings of ERL's mutation of a matrix."""

    strength: float = 0.1
    """Std of a change, relative to the weight."""
    fraction: float = 0.1
    """Fewer than this share of the weights of a matrix (rounded up) are mutated."""
    super_probability: float = 0.05
    """Share of the mutations that have the strength `super_strength`."""
    super_strength: float = 10.0
    """Std of a super mutation's change, relative to the weight."""
    reset_probability: float = 0.05
    """Share of the mutations that draw the weight anew from N(0, 1)."""


@dataclass(frozen=True)
class Breeding:
    """Settings of the step from one population of ERL to the next."""

    elite_fraction: float = 0.1
    """Share of members that are copied unchanged, at least one."""
    tournament_size: int = 3
    mutation_probability: float = 0.9
    """Probability that a member other than an elite's copy is mutated."""
    mutation: Mutation = Mutation()

    def elites(self, population_size: int) -> int:
        """Return the number of members that are copied unchanged."""
        return max(1, int(self.elite_fraction * population_size))


def tournament_winners(
    ranked: Sequence[int], rng: np.random.Generator, *, count: int, size: int
) -> list[int]:
    """Return the winners of `count` tournaments of `size` members; `ranked` best first."""
    best = rng.integers(len(ranked), size=(count, size)).min(axis=1)
    return [ranked[place] for place in np.unique(best).tolist()]


def next_population(
    population: Float32[np.ndarray, "N P"],
    fitness: Float64[np.ndarray, " N"],
    shapes: Shapes,
    rng: np.random.Generator,
    breeding: Breeding,
) -> tuple[Float32[np.ndarray, "N P"], list[int]]:
    """Return the next population, and the places of the elites' unchanged copies in it.

    Tournament winners and elites stay and may mutate. Each elite's copy takes one of the remaining
    places; the others get crossings of a random elite and a random winner. If fewer places remain
    than there are elites, the weakest winners are replaced; in ERL's code an elite can be replaced.
    """
    size = len(population)
    ranked = np.argsort(-fitness, kind="stable").tolist()
    count = breeding.elites(size)
    elites = ranked[:count]
    winners = tournament_winners(ranked, rng, count=size - count, size=breeding.tournament_size)
    free = [place for place in ranked if place not in elites and place not in winners]
    rng.shuffle(free)
    giving_way = [place for place in reversed(ranked) if place in winners and place not in elites]
    copies = (free + giving_way)[:count]
    following = population.copy()
    for place, elite in zip(copies, elites, strict=False):
        following[place] = population[elite]
    rest = [place for place in free if place not in copies]
    for first, second in zip(rest[::2], [*rest[1::2], *rest[-1:]], strict=False):
        parents = (
            population[elites[int(rng.integers(count))]],
            population[winners[int(rng.integers(len(winners)))]],
        )
        following[first], following[second] = crossed(*parents, shapes, rng)
    for place in range(size):
        if place not in copies and rng.random() < breeding.mutation_probability:
            following[place] = mutated(following[place], shapes, rng, breeding.mutation)
    return following, copies


def crossed(
    one: Float32[np.ndarray, " P"],
    other: Float32[np.ndarray, " P"],
    shapes: Shapes,
    rng: np.random.Generator,
) -> tuple[Float32[np.ndarray, " P"], Float32[np.ndarray, " P"]]:
    """Copy rows of each tensor from one parent to the other, either way.

    Fewer than 2 × rows times in a matrix and fewer than `rows` times in a bias, as in ERL.
    """
    first, second = one.copy(), other.copy()
    for left, right in zip(_tensors(first, shapes), _tensors(second, shapes), strict=True):
        rows = len(left)
        count = int(rng.integers(rows * left.ndim))
        to_left = (rng.random(count) < 0.5).tolist()
        for row, into_left in zip(rng.integers(rows, size=count).tolist(), to_left, strict=True):
            source, target = (right, left) if into_left else (left, right)
            target[row] = source[row]
    return first, second


def mutated(
    vector: Float32[np.ndarray, " P"], shapes: Shapes, rng: np.random.Generator, mutation: Mutation
) -> Float32[np.ndarray, " P"]:
    """Change some weights w of some matrices: w + N(0, (strength w)²), or a new draw.

    A matrix is mutated with a probability drawn from U(0, 2), a bias never, as in ERL. No weight is
    mutated twice.
    """
    changed = vector.copy()
    super_or_reset = mutation.super_probability + mutation.reset_probability
    for matrix in _tensors(changed, shapes):
        probability = rng.uniform(0.0, 2.0)
        if matrix.ndim == 1 or rng.random() >= probability:
            continue
        count = int(rng.integers(math.ceil(mutation.fraction * matrix.size)))
        places = np.unravel_index(rng.choice(matrix.size, count, replace=False), matrix.shape)
        kind, normal = rng.random(count), rng.standard_normal(count)
        is_super = kind < mutation.super_probability
        strength = np.where(is_super, mutation.super_strength, mutation.strength)
        old = matrix[places].astype(np.float64)
        new = np.where(~is_super & (kind < super_or_reset), normal, old * (1 + strength * normal))
        matrix[places] = np.clip(new, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    return changed


def _tensors(vector: Float32[np.ndarray, " P"], shapes: Shapes) -> Iterator[np.ndarray]:
    """Return views of the tensors of a flat vector."""
    start = 0
    for shape in shapes:
        stop = start + math.prod(shape)
        tensor = vector[start:stop].reshape(shape)
        yield tensor.T if isinstance(shape, ByInput) else tensor
        start = stop
