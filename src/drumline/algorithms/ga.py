"""ERL's genetic algorithm (Khadka & Tumer 2018, arXiv 1805.07917) as a strategy."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline import seeding
from drumline.algorithms.archive import Archive
from drumline.algorithms.individuals import norm, staleness, tell_each
from drumline.functional.genetics import Breeding, Shapes, next_population
from drumline.types import Candidate, Individual, Metrics, State


class GA:
    """A population that is bred anew after every N individuals told, which are the parents.

    ask(N) and tell of all N is ERL's generation. In a steady-state loop members are asked in turn
    again and again, so a member can be evaluated twice before the next breeding. A member that
    gradient steps changed becomes a parent as it was told. `inject` adds the RL actor, as ERL does.
    """

    def __init__(
        self,
        population: Float[np.ndarray, "N P"],
        shapes: Shapes,
        *,
        seed: int,
        breeding: Breeding | None = None,
    ):
        self._population = np.array(population, dtype=np.float32)
        size, parameter_count = self._population.shape
        self._shapes = shapes
        self._breeding = breeding or Breeding()
        total = sum(math.prod(shape) for shape in shapes)
        if total != parameter_count:
            raise ValueError(f"shapes hold {total} parameters, the population {parameter_count}")
        if not 1 <= self._breeding.elites(size) < size:
            raise ValueError(
                f"a population of {size} needs from 1 to {size - 1} elites, got "
                f"{self._breeding.elites(size)}"
            )
        self._parents = Archive(size, parameter_count)
        self._champion = self._population[0].copy()
        self._weakest = size - 1
        self._seed = seed
        self._asked = 0
        self._tells = 0

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return the fittest of the last parents; before the first breeding, member 0."""
        return self._champion

    @property
    def population(self) -> Float32[np.ndarray, "N P"]:
        """Return the current members."""
        return self._population

    def ask(self, count: int) -> list[Candidate]:
        """Return copies of the next members, in turn."""
        first, self._asked = self._asked, self._asked + count
        return [
            Candidate(index, self._tells, self._population[index % len(self._population)].copy())
            for index in range(first, self._asked)
        ]

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Add individuals; every N of them are bred."""
        return tell_each(self._tell_one, individuals, self._champion.size)

    def inject(self, vector: Float32[np.ndarray, " P"]) -> None:
        """Replace the weakest parent by the RL actor; the champion is never replaced."""
        if vector.shape != self._champion.shape or not np.isfinite(vector).all():
            raise ValueError(
                f"an injected actor needs {self._champion.size} finite parameters, got "
                f"{np.count_nonzero(np.isfinite(vector))} of shape {list(vector.shape)}"
            )
        self._population[self._weakest] = vector

    def published(self) -> dict[str, np.ndarray]:
        """Return a copy of the champion."""
        return {"parameters": self._champion.copy()}

    def state(self) -> State:
        """Return all learned state."""
        parents = self._parents.state()
        counters: dict[str, int | float] = {
            "asked": self._asked,
            "tells": self._tells,
            "weakest": self._weakest,
        }
        return State(
            {
                "parameters": self._champion.copy(),
                "population": self._population.copy(),
                **parents.tensors,
            },
            {**counters, **parents.counters},
        )

    def load(self, state: State) -> None:
        """Load a state."""
        self._champion = state.tensor("parameters", like=self._champion)
        self._population = state.tensor("population", like=self._population)
        self._asked = int(state.counter("asked"))
        self._tells = int(state.counter("tells"))
        self._weakest = int(state.counter("weakest"))
        self._parents.load(state)

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        self._parents.add(individual)
        self._tells += 1
        before = self._champion
        if self._parents.full:
            self._breed()
            self._parents.clear()
        return {
            "fitness": individual.fitness,
            "update_norm": norm(self._champion - before),
            "staleness_tells": float(late),
        }

    def _breed(self) -> None:
        places = self._parents.by_index()
        parents, fitness = self._parents.vectors[places], self._parents.fitness[places]
        rng = seeding.generator(self._seed, "breeding", self._tells)
        self._champion = parents[int(np.argmax(fitness))].copy()
        self._population, copies = next_population(
            parents, fitness, self._shapes, rng, self._breeding
        )
        weakest_first = np.argsort(fitness, kind="stable").tolist()
        self._weakest = next(place for place in weakest_first if place not in copies)
