"""Archive: the latest individuals of a search, which rank-based rules compare."""

import numpy as np
from jaxtyping import Float32, Int

from drumline.functional.mean_updates import best_first
from drumline.types import Individual, State


class Archive:
    """A ring of the last `capacity` individuals, or a generation that is filled and cleared."""

    def __init__(self, capacity: int, parameter_count: int):
        if capacity < 0:
            raise ValueError(f"an archive's capacity must be at least 0, got {capacity}")
        self.capacity = capacity
        self.vectors = np.zeros((capacity, parameter_count), np.float32)
        self.fitness = np.zeros(capacity)
        self._indices = np.zeros(capacity, np.int64)
        self._count = 0

    @property
    def full(self) -> bool:
        """Whether the archive holds `capacity` individuals."""
        return 0 < self.capacity <= self._count

    def add(self, individual: Individual) -> None:
        """Add a copy; in a full archive it replaces the oldest."""
        if self.capacity:
            place = self._count % self.capacity
            self.vectors[place] = individual.vector
            self.fitness[place] = individual.fitness
            self._indices[place] = individual.index
            self._count += 1

    def by_index(self) -> Int[np.ndarray, " N"]:
        """Return the places of a full archive in the order of candidate indices, not of arrival."""
        return np.argsort(self._indices, kind="stable")

    def elites(self, count: int) -> list[Float32[np.ndarray, " P"]]:
        """Return views of a full archive's best vectors, best first; ties: lower index first."""
        places = self.by_index()
        best = places[best_first(self.fitness[places], count)]
        return [self.vectors[place] for place in best]

    def clear(self) -> None:
        """Begin the next generation."""
        self._count = 0

    def state(self) -> State:
        """Return copies of everything that a later update can depend on."""
        return State(
            {
                "archive_vectors": self.vectors.copy(),
                "archive_fitness": self.fitness.copy(),
                "archive_indices": self._indices.copy(),
            },
            {"archive_count": self._count},
        )

    def load(self, state: State) -> None:
        """Load a state."""
        self.vectors = state.tensor("archive_vectors", like=self.vectors)
        self.fitness = state.tensor("archive_fitness", like=self.fitness)
        self._indices = state.tensor("archive_indices", like=self._indices)
        self._count = int(state.counter("archive_count"))
