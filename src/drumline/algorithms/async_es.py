"""Asynchronous evolution strategy of AES-RL (Lee, Lee, Shin & Kweon 2020, arXiv 2012.05417)."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.archive import Archive
from drumline.algorithms.asked_means import AskedMeans
from drumline.algorithms.distribution_rules import Arrival, MeanRule, VarianceRule
from drumline.algorithms.individuals import (
    gaussian_vector,
    norm,
    staleness,
    tell_each,
    variance_summary,
)
from drumline.functional.mean_updates import moved_mean
from drumline.functional.perturbation import counter_reader
from drumline.functional.trust_region import step_within_kl
from drumline.types import Candidate, Individual, Metrics, State


class AsyncES:
    """N(μ, diag v): a candidate is asked of the newest distribution and told after its episode.

    An individual may be told in any order, and with other parameters than those asked. If the mean
    is not evaluated beside it, the returns' moving average replaces the mean's fitness. With
    `recentred`, it counts as if it had been asked of the newest mean: z ← z + μ − μ_ask.

    >>> from functools import partial
    >>> from drumline.algorithms.distribution_rules import PartialMove, WelfordVariance
    >>> from drumline.algorithms.individuals import live
    >>> from drumline.functional.mean_updates import relative_baseline
    >>> strategy = AsyncES(
    ...     np.zeros(3),
    ...     PartialMove(partial(relative_baseline, fitness_range=0.1)),
    ...     WelfordVariance(lambda p: 10.0),
    ...     seed=0,
    ...     initial_variance=0.1,
    ... )
    >>> def fitness(x):
    ...     return -float(np.square(x - 1.0).sum())
    >>> for _ in range(300):
    ...     (candidate,) = strategy.ask(1)
    ...     told = live(candidate, fitness(candidate.vector), fitness(strategy.parameters))
    ...     metrics = strategy.tell([told])
    >>> bool(np.abs(strategy.parameters - 1).max() < 0.1)
    True
    """

    def __init__(
        self,
        mean: Float[np.ndarray, " P"],
        mean_rule: MeanRule,
        variance_rule: VarianceRule,
        *,
        seed: int,
        initial_variance: float = 1e-3,
        archive_size: int = 0,
        kl_bound: float | None = None,
        mean_fitness_rate: float = 0.1,
        variance_from_refined: bool = True,
        staleness_discount: float = 1.0,
        recentred: bool = False,
    ):
        if not (initial_variance > 0.0 and math.isfinite(initial_variance)):
            raise ValueError(f"initial_variance must be above 0, got {initial_variance}")
        if kl_bound is not None and not kl_bound > 0.0:
            raise ValueError(f"kl_bound must be above 0 nats, got {kl_bound}")
        if not 0.0 < mean_fitness_rate <= 1.0:
            raise ValueError(
                f"mean_fitness_rate must be above 0 and at most 1, got {mean_fitness_rate}"
            )
        if not 0.0 <= staleness_discount <= 1.0:
            raise ValueError(f"staleness_discount must be 0 to 1, got {staleness_discount}")
        self._variance_from_refined = variance_from_refined
        self._staleness_discount = staleness_discount
        self._asked_of = AskedMeans(np.size(mean)) if recentred else None
        self._mean = np.array(mean, dtype=np.float32)
        self._variance = np.full_like(self._mean, initial_variance)
        self._mean_rule = mean_rule
        self._variance_rule = variance_rule
        self._archive = Archive(archive_size, self._mean.size)
        self._kl_bound = kl_bound
        self._mean_fitness_rate = mean_fitness_rate
        self._mean_fitness = 0.0
        self._returns_averaged = 0
        self._read = counter_reader(seed)
        self._asked = 0
        self._tells = 0

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return μ."""
        return self._mean

    @property
    def variance(self) -> Float32[np.ndarray, " P"]:
        """Return v."""
        return self._variance

    def ask(self, count: int) -> list[Candidate]:
        """Return z = μ + √v ε of the newest distribution, ε named by the candidate's index."""
        std = np.sqrt(self._variance)
        first, self._asked = self._asked, self._asked + count
        if self._asked_of is not None:
            self._asked_of.ask(self._tells, self._mean, count)
        return [
            Candidate(index, self._tells, gaussian_vector(self._read, index, self._mean, std))
            for index in range(first, self._asked)
        ]

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Move the distribution once for each individual, in the order given."""
        return tell_each(self._tell_one, individuals, self._mean.size)

    def published(self) -> dict[str, np.ndarray]:
        """Return copies of μ and v."""
        return {"parameters": self._mean.copy(), "variance": self._variance.copy()}

    def state(self) -> State:
        """Return all learned state; candidates that were not told yet are kept by the caller."""
        parts = [self._archive.state(), self._mean_rule.state(), self._variance_rule.state()]
        parts += [] if self._asked_of is None else [self._asked_of.state()]
        tensors, counters = (
            self.published(),
            {
                "asked": self._asked,
                "tells": self._tells,
                "mean_fitness": self._mean_fitness,
                "returns_averaged": self._returns_averaged,
            },
        )
        for part in parts:
            tensors |= part.tensors
            counters |= part.counters
        return State(tensors, counters)

    def load(self, state: State) -> None:
        """Load a state."""
        self._mean = state.tensor("parameters", like=self._mean)
        self._variance = state.tensor("variance", like=self._variance)
        self._asked = int(state.counter("asked"))
        self._tells = int(state.counter("tells"))
        self._mean_fitness = float(state.counter("mean_fitness"))
        self._returns_averaged = int(state.counter("returns_averaged"))
        self._archive.load(state)
        self._mean_rule.load(state)
        self._variance_rule.load(state)
        if self._asked_of is not None:
            self._asked_of.load(state)

    def _tell_one(self, individual: Individual) -> Metrics:
        late = staleness(individual, self._tells)
        mean_fitness = self._fitness_of_the_mean(individual)
        if self._asked_of is not None:
            moved = self._asked_of.told(individual, self._mean)
            individual = individual._replace(vector=moved)
        self._archive.add(individual)
        arrival = Arrival(
            individual.vector,
            individual.fitness,
            mean_fitness,
            self._mean,
            self._variance,
            self._archive,
            self._tells,
            self._tells if individual.mean_version is None else individual.mean_version,
        )
        mean, step_size = self._mean_rule(arrival)
        discount = self._staleness_discount**late
        if discount < 1.0:
            mean, step_size = moved_mean(self._mean, mean, discount), step_size * discount
        variance = self._variance
        if self._variance_from_refined or not individual.refined:
            variance = self._variance_rule(arrival, step_size)
        allowed = 1.0
        if self._kl_bound is not None:
            allowed = step_within_kl(mean, variance, self._mean, self._variance, self._kl_bound)
            if allowed < 1.0:
                mean = moved_mean(self._mean, mean, allowed)
                variance = moved_mean(self._variance, variance, allowed)
        update_norm = norm(mean - self._mean)
        self._mean, self._variance = mean, variance
        self._tells += 1
        return {
            "fitness": individual.fitness,
            "mean_fitness": mean_fitness,
            "improvement_over_mean": individual.fitness - mean_fitness,
            "step_size": step_size * allowed,
            "update_norm": update_norm,
            "accepted": float(update_norm > 0.0 and step_size != 0.0),
            "staleness_tells": float(late),
            "trust_region_share": allowed,
            **variance_summary(variance),
        }

    def _fitness_of_the_mean(self, individual: Individual) -> float:
        """Return the measured fitness, or the moving average before this individual enters it."""
        if individual.mean_fitness is not None:
            return individual.mean_fitness
        self._returns_averaged += 1
        before = self._mean_fitness if self._returns_averaged > 1 else individual.fitness
        # The first returns have equal weights; a moving average would stay at the very first.
        rate = max(self._mean_fitness_rate, 1.0 / self._returns_averaged)
        self._mean_fitness = before + rate * (individual.fitness - before)
        return before
