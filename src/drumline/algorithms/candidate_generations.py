"""Strategies of candidates (CEM, GA) under a schedule of generations."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from drumline import seeding
from drumline.algorithms.individuals import norm
from drumline.algorithms.mirrored import in_order
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Candidate, Individual, Metrics, State

POPULATION = "population"
"""Name of the published candidates `[N, P]`: a task's member is its row."""


@runtime_checkable  # the tests check signatures at run time
class CandidateStrategy(Protocol):
    """Search over parameter vectors by ask and tell: AsyncES, SNES, CEM, GA, pycma and others.

    It asks points, one at a time or many, and is told individuals in any order. A
    `GenerationStrategy` (`protocols`) asks tasks instead, a whole generation of them.
    """

    @property
    def parameters(self) -> np.ndarray:
        """Return the vector `[P]` that it stands for: a distribution's mean, a champion."""
        ...

    def ask(self, count: int) -> list[Candidate]:
        """Return candidates of the newest distribution."""
        ...

    def tell(self, individuals: Sequence[Individual]) -> Metrics:
        """Update with individuals."""
        ...

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays of the newest distribution, `parameters` among them."""
        ...

    def state(self) -> State:
        """Return all learned state."""
        ...

    def load(self, state: State) -> None:
        """Load a state."""
        ...


class CandidateGenerations:
    """Generation g: the N candidates asked after g · N tells, published and then run."""

    def __init__(self, strategy: CandidateStrategy, population_size: int, seed: int):
        self._strategy = strategy
        self._size = population_size
        self._seed = seed
        self._candidates: list[Candidate] = []
        self._generation = 0

    @property
    def _members(self) -> list[Candidate]:
        """Return this generation's candidates, asked when they are first needed."""
        if not self._candidates:
            self._candidates = self._strategy.ask(self._size)
        return self._candidates

    def ask(self, count: int) -> list[Evaluate]:
        """Return the tasks of this generation's first `count` members."""
        seeds = seeding.seeds(self._seed, self._size, "episode", self._generation)
        return [
            Evaluate(self._generation, member, 0, 0, seeds[member], 0.0, 0, False, True)
            for member in range(min(count, self._size))
        ]

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        """Tell a whole generation, by member."""
        ordered = in_order(results, self._generation)
        if len(ordered) != self._size:
            raise ValueError(f"a generation has {self._size} members, told {len(ordered)}")
        told = self._strategy.tell(
            [
                Individual(candidate.index, candidate.version, candidate.vector, result.fitness)
                for candidate, result in zip(self._members, ordered, strict=True)
            ]
        )
        self._candidates = []
        self._generation += 1
        return {
            **return_summary(ordered),
            "parameter_norm": norm(self._strategy.published()["parameters"]),
            **told,
        }

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the mean (or champion) and the candidates."""
        population = np.stack([candidate.vector for candidate in self._members])
        return {**self._strategy.published(), POPULATION: population}

    def state(self) -> State:
        """Return the state between two generations; candidates asked since then are asked again."""
        state = self._strategy.state()
        return State(state.tensors, {**state.counters, "asked": state.counters["tells"]})

    def load(self, state: State) -> None:
        """Load a state."""
        self._strategy.load(state)
        self._generation = int(state.counters["tells"]) // self._size
        self._candidates = []


def return_summary(evaluations: Sequence[Evaluation]) -> Metrics:
    """Return metrics of a generation's episodes: their returns and lengths."""
    returns = np.array([evaluation.episode_return for evaluation in evaluations])
    return {
        "episode_return_mean": float(returns.mean()),
        "episode_return_std": float(returns.std()),
        "episode_return_min": float(returns.min()),
        "episode_return_max": float(returns.max()),
        "episode_length_mean": sum(e.length for e in evaluations) / len(evaluations),
    }
