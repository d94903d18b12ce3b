"""OpenAI-ES (Salimans et al. 2017, arXiv 1703.03864) without generations to wait for."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.archive import Archive
from drumline.algorithms.individuals import gaussian_vector, norm, staleness, tell_each
from drumline.algorithms.optimizers import Optimizer
from drumline.functional.mean_updates import weighted_mean
from drumline.functional.perturbation import counter_reader
from drumline.functional.ranking import centered_ranks
from drumline.types import Candidate, Individual, Metrics, State

Shaping = Callable[[Float[np.ndarray, " N"]], Float[np.ndarray, " N"]]


class SteadyOpenAIES:
    """One optimiser step along (1/N) Σ u_i (z_i − θ) / σ for every N individuals told.

    With utilities that sum to 0 (centred ranks) this is Σ u_i z_i / (N σ), so the θ from which an
    individual was asked does not matter. Candidates 2i and 2i + 1 are θ ± σ ε_i if both are asked
    of the same θ.
    """

    def __init__(
        self,
        parameters: Float[np.ndarray, " P"],
        optimizer: Optimizer,
        *,
        seed: int,
        population_size: int = 40,
        std: float = 0.02,
        shaping: Shaping = centered_ranks,
    ):
        if not std > 0.0:
            raise ValueError(f"std must be above 0, got {std}")
        if population_size < 2:
            raise ValueError(f"population_size must be at least 2, got {population_size}")
        self._parameters = np.array(parameters, dtype=np.float32)
        self._optimizer = optimizer
        self._shaping = shaping
        self._std = np.full_like(self._parameters, std)
        self._generation = Archive(population_size, self._parameters.size)
        self._read = counter_reader(seed)
        self._asked = 0
        self._tells = 0

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return θ."""
        return self._parameters

    def ask(self, count: int) -> list[Candidate]:
        """Return θ ± σ ε of the newest θ, ε named by the candidate's pair."""
        first, self._asked = self._asked, self._asked + count
        candidates: list[Candidate] = []
        for index in range(first, self._asked):
            sign = -1 if index % 2 else 1
            vector = gaussian_vector(self._read, index // 2, self._parameters, self._std, sign)
            candidates.append(Candidate(index, self._tells, vector))
        return candidates

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Add individuals; every N of them make one step."""
        return tell_each(self._tell_one, individuals, self._parameters.size)

    def published(self) -> dict[str, np.ndarray]:
        """Return copies of θ and σ², under the names that AsyncES uses."""
        return {"parameters": self._parameters.copy(), "variance": np.square(self._std)}

    def state(self) -> State:
        """Return all learned state."""
        parts = [self._generation.state(), self._optimizer.state()]
        tensors = {"parameters": self._parameters.copy()}
        counters: dict[str, int | float] = {"asked": self._asked, "tells": self._tells}
        for part in parts:
            tensors |= part.tensors
            counters |= part.counters
        return State(tensors, counters)

    def load(self, state: State) -> None:
        """Load a state."""
        self._parameters = state.tensor("parameters", like=self._parameters)
        self._asked = int(state.counter("asked"))
        self._tells = int(state.counter("tells"))
        self._generation.load(state)
        self._optimizer.load(state)

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        self._generation.add(individual)
        self._tells += 1
        before = self._parameters
        if self._generation.full:
            self._step()
            self._generation.clear()
        return {
            "fitness": individual.fitness,
            "update_norm": norm(self._parameters - before),
            "staleness_tells": float(late),
            "sampling_std": float(self._std[0]),
            "condition_number": 1.0,
        }

    def _step(self) -> None:
        """Take one step, in the order of candidate indices; none if all returns are alike."""
        places = self._generation.by_index()
        fitness = self._generation.fitness[places]
        weights = self._shaping(fitness)
        if np.all(fitness == fitness[0]) or not weights.any():
            return  # docs/adr/0004
        deviations = self._generation.vectors[places] - self._parameters
        ascent = weighted_mean(list(deviations), weights / len(places))
        self._parameters = self._optimizer.step(self._parameters, ascent / self._std)
