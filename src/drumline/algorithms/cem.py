"""Cross-entropy method with CEM-RL's covariance (Pourchot & Sigaud 2019, arXiv 1810.01222)."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.archive import Archive
from drumline.algorithms.distribution_rules import refuse_damp
from drumline.algorithms.individuals import (
    gaussian_vector,
    norm,
    staleness,
    tell_each,
    variance_summary,
)
from drumline.functional.mean_updates import cem_weights, weighted_mean
from drumline.functional.perturbation import counter_reader
from drumline.functional.variance_updates import decayed_damp, elite_variance
from drumline.types import Candidate, Individual, Metrics, State


class CEM:
    """μ = Σ w_i z_i, v = Σ w_i (z_i − μ_old)² / K + ε over the K best of every N individuals told.

    ask(N) and tell of all N is CEM-RL's generation, told in any order. In a steady-state loop a
    generation is the N individuals that come first. ε decays before it is added, as in CEM-RL. With
    `antithetic`, members i and i + N/2 of a generation have opposite noise.
    """

    def __init__(
        self,
        mean: Float[np.ndarray, " P"],
        *,
        seed: int,
        population_size: int = 10,
        elites: int = 5,
        initial_variance: float = 1e-3,
        damp: float = 1e-3,
        damp_limit: float = 1e-5,
        damp_decay: float = 0.95,
        antithetic: bool = True,
        divide_by_elites: bool = True,
    ):
        if not (initial_variance > 0.0 and math.isfinite(initial_variance)):
            raise ValueError(f"initial_variance must be above 0, got {initial_variance}")
        if not 1 <= elites <= population_size:
            raise ValueError(f"elites must be 1 to population_size {population_size}, got {elites}")
        if antithetic and population_size % 2:
            raise ValueError(
                f"antithetic pairs need an even population_size, got {population_size}"
            )
        refuse_damp(damp, damp_limit, damp_decay)
        self._mean = np.array(mean, dtype=np.float32)
        self._variance = np.full_like(self._mean, initial_variance)
        self._weights = cem_weights(elites)
        self._generation = Archive(population_size, self._mean.size)
        self._damp = damp
        self._damp_limit = damp_limit
        self._damp_decay = damp_decay
        self._antithetic = antithetic
        self._divide = divide_by_elites
        self._read = counter_reader(seed)
        self._asked = 0
        self._tells = 0

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return μ."""
        return self._mean

    def ask(self, count: int) -> list[Candidate]:
        """Return z = μ ± √v ε of the newest distribution, ε named by generation and member."""
        std = np.sqrt(self._variance)
        first, self._asked = self._asked, self._asked + count
        candidates: list[Candidate] = []
        for index in range(first, self._asked):
            key, sign = self._noise(index)
            vector = gaussian_vector(self._read, key, self._mean, std, sign)
            candidates.append(Candidate(index, self._tells, vector))
        return candidates

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Add individuals; every N of them make one update."""
        return tell_each(self._tell_one, individuals, self._mean.size)

    def published(self) -> dict[str, np.ndarray]:
        """Return copies of μ and v."""
        return {"parameters": self._mean.copy(), "variance": self._variance.copy()}

    def state(self) -> State:
        """Return all learned state."""
        generation = self._generation.state()
        counters: dict[str, int | float] = {
            "asked": self._asked,
            "tells": self._tells,
            "damp": self._damp,
        }
        return State(
            {**self.published(), **generation.tensors}, {**counters, **generation.counters}
        )

    def load(self, state: State) -> None:
        """Load a state."""
        self._mean = state.tensor("parameters", like=self._mean)
        self._variance = state.tensor("variance", like=self._variance)
        self._asked = int(state.counter("asked"))
        self._tells = int(state.counter("tells"))
        self._damp = float(state.counter("damp"))
        self._generation.load(state)

    def _noise(self, index: int) -> tuple[int, int]:
        """Return noise key and sign of a candidate."""
        if not self._antithetic:
            return index, 1
        size = self._generation.capacity
        generation, member = divmod(index, size)
        half = size // 2
        return generation * half + member % half, 1 if member < half else -1

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        self._generation.add(individual)
        self._tells += 1
        before = self._mean
        if self._generation.full:
            self._damp = decayed_damp(self._damp, self._damp_limit, self._damp_decay)
            elites = self._generation.elites(self._weights.size)
            self._variance = elite_variance(
                elites, self._weights, before, self._damp, divide_by_elites=self._divide
            )
            self._mean = weighted_mean(elites, self._weights)
            self._generation.clear()
        return {
            "fitness": individual.fitness,
            "update_norm": norm(self._mean - before),
            "staleness_tells": float(late),
            "damp": self._damp,
            **variance_summary(self._variance),
        }
