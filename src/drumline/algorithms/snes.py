"""Separable natural evolution strategy with asynchronous updates.

Glasmachers, *A Natural Evolution Strategy with Asynchronous Strategy Updates*, GECCO 2013. Only its
abstract and introduction could be read. From the paper: every evaluation updates the strategy at
once. Inferred from it and from SNES (Wierstra et al. 2014, JMLR 15): the sliding window, its rank
utilities and the rates. The paper has a full covariance matrix, this class a diagonal.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.archive import Archive
from drumline.algorithms.individuals import (
    gaussian_vector,
    norm,
    staleness,
    tell_each,
    variance_summary,
)
from drumline.functional.natural_gradient import (
    longest_deviation,
    nes_utilities,
    snes_learning_rate,
    snes_step,
    standardized,
)
from drumline.functional.perturbation import counter_reader
from drumline.types import Candidate, Individual, Metrics, State


class SNES:
    """A step of 1/λ of SNES's rates on the last λ individuals, at every arrival.

    All individuals are seen from the newest distribution, s = (z − μ)/σ, whatever distribution they
    were asked from. An s longer than that of a sample is cut to that length (Hansen 2011, arXiv
    1110.4181).
    """

    def __init__(
        self,
        mean: Float[np.ndarray, " P"],
        *,
        seed: int,
        initial_std: float = 0.03,
        window: int | None = None,
        mean_rate: float = 1.0,
        std_rate: float | None = None,
        std_floor: float = 1e-4,
    ):
        if not (initial_std >= std_floor > 0.0 and math.isfinite(initial_std)):
            raise ValueError(
                f"initial_std must be at least std_floor and that above 0, "
                f"got {initial_std} and {std_floor}"
            )
        self._mean = np.array(mean, dtype=np.float32)
        self._std = np.full_like(self._mean, initial_std)
        size = self._mean.size
        # λ = 4 + ⌊3 ln d⌋, the default of SNES and CMA-ES.
        self._window = Archive(window or 4 + int(3 * math.log(size)), size)
        self._utilities = nes_utilities(self._window.capacity)
        self._longest = longest_deviation(size)
        self._mean_rate = mean_rate / self._window.capacity
        self._std_rate = (
            snes_learning_rate(size) if std_rate is None else std_rate
        ) / self._window.capacity
        self._floor = np.float32(std_floor)
        self._read = counter_reader(seed)
        self._asked = 0
        self._tells = 0

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return μ."""
        return self._mean

    def ask(self, count: int) -> list[Candidate]:
        """Return z = μ + σ ε of the newest distribution, ε named by the candidate's index."""
        first, self._asked = self._asked, self._asked + count
        return [
            Candidate(index, self._tells, gaussian_vector(self._read, index, self._mean, self._std))
            for index in range(first, self._asked)
        ]

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Take one step for each individual, in the order given."""
        return tell_each(self._tell_one, individuals, self._mean.size)

    def published(self) -> dict[str, np.ndarray]:
        """Return copies of μ and σ² (AsyncES's words)."""
        return {"parameters": self._mean.copy(), "variance": np.square(self._std)}

    def state(self) -> State:
        """Return all learned state."""
        window = self._window.state()
        own = {"parameters": self._mean.copy(), "std": self._std.copy()}
        counters: dict[str, int | float] = {"asked": self._asked, "tells": self._tells}
        return State({**own, **window.tensors}, {**counters, **window.counters})

    def load(self, state: State) -> None:
        """Load a state."""
        self._mean = state.tensor("parameters", like=self._mean)
        self._std = state.tensor("std", like=self._std)
        self._asked = int(state.counter("asked"))
        self._tells = int(state.counter("tells"))
        self._window.load(state)

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        self._window.add(individual)
        self._tells += 1
        before = self._mean
        if self._window.full:
            ranked = self._window.elites(self._window.capacity)
            deviations = [standardized(z, self._mean, self._std, self._longest) for z in ranked]
            self._mean, std = snes_step(
                self._mean,
                self._std,
                deviations,
                self._utilities,
                mean_rate=self._mean_rate,
                std_rate=self._std_rate,
            )
            self._std = np.maximum(std, self._floor, out=std)
        return {
            "fitness": individual.fitness,
            "update_norm": norm(self._mean - before),
            "staleness_tells": float(late),
            **variance_summary(np.square(self._std)),
        }
