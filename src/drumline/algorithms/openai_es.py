"""OpenAI-ES (Salimans, Ho, Chen, Sidor & Sutskever 2017, arXiv 1703.03864)."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.episode_cap import EpisodeCap
from drumline.algorithms.mirrored import (
    IndependentSampler,
    MirroredSampler,
    finite_fitness,
    one_vector,
)
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.optimizers import Adam, Optimizer
from drumline.algorithms.search_state import SearchState, StdSchedule, constant_std
from drumline.functional.perturbation import counter_noise, subset_range, weighted_noise_sum
from drumline.functional.ranking import centered_ranks
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Metrics, State

Shaping = Callable[[Float[np.ndarray, " N"]], Float[np.ndarray, " N"]]


_GREATEST = 1e18
"""Bound of shaped fitness: the optimiser sums up squares of the gradient's parts in float32."""


class OpenAIES:
    """Algorithm 1, mirrored: g = (1/N) Σᵢ (uᵢ⁺ − uᵢ⁻) εᵢ, then one optimiser step.

    As in the reference, g is divided by N = 2n and not by σ. Ask and tell need no runtime:

    >>> from drumline import answer
    >>> strategy = OpenAIES.simple(np.zeros(3), std=0.1, learning_rate=0.1)
    >>> for _ in range(100):
    ...     tasks = strategy.ask(20)
    ...     told = [answer(t, -np.square(strategy.candidate(t) - 1).sum()) for t in tasks]
    ...     metrics = strategy.tell(told[::-1])
    >>> bool(np.abs(strategy.parameters - 1).max() < 0.1)
    True
    """

    def __init__(
        self,
        parameters: Float32[np.ndarray, " P"],
        sampler: MirroredSampler | IndependentSampler,
        optimizer: Optimizer,
        std: StdSchedule,
        *,
        shaping: Shaping = centered_ranks,
        moments: ObservationMoments | None = None,
        episode_cap: EpisodeCap | None = None,
        perturb_fraction: float | None = None,
        use_fraction: float | None = None,
        update_threads: int = 1,
        step_scale: Callable[[int], float] = lambda generation: 1.0,
    ):
        """`step_scale`: generation → factor on the optimiser's step size."""
        if perturb_fraction is not None and use_fraction is not None:
            raise ValueError("perturb_fraction and use_fraction are two variants: give one")
        self._search = SearchState(
            parameters,
            sampler,
            std,
            moments=moments,
            episode_cap=episode_cap,
            subset_fraction=perturb_fraction,
        )
        self._optimizer = optimizer
        self._step_scale = step_scale
        self._shaping = shaping
        self._fraction = perturb_fraction if perturb_fraction is not None else use_fraction
        self._threads = update_threads

    @staticmethod
    def simple(
        parameters: Float[np.ndarray, " P"],
        *,
        std: float = 0.02,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> "OpenAIES":
        """Return a strategy with counter noise and Adam, for a user's own loop."""
        start = one_vector(parameters)
        adam = Adam(start.size, learning_rate=learning_rate, weight_decay=weight_decay)
        return OpenAIES(start, MirroredSampler(seed, counter_noise(seed)), adam, constant_std(std))

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return θ."""
        return self._search.parameters

    @property
    def generation(self) -> int:
        """Return the number of generations told so far."""
        return self._search.generation

    def ask(self, count: int) -> list[Evaluate]:
        """Return the tasks of the next `count` members of this generation."""
        return self._search.ask(count)

    def candidate(self, task: Evaluate) -> Float32[np.ndarray, " P"]:
        """Return the perturbed parameters of a task."""
        return self._search.candidate(task)

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        """Take one step from a whole generation, with its results in any order.

        A generation whose returns are all equal, or ties to its shaping, has no information: no
        step, no decay, no momentum (docs/adr/0004), so that a solved task keeps its weights.
        """
        ordered = self._search.accept(results)
        fitness = finite_fitness(ordered)
        weights = self._shaping(fitness)
        skipped = bool(np.all(fitness == fitness[0])) or not weights.any()
        metrics: Metrics = {"update_skipped": float(skipped), "gradient_norm": 0.0}
        metrics["update_ratio"] = 0.0
        if not skipped:
            _refuse_great(weights)
            gradient = self._gradient(ordered, weights)
            before = self._search.parameters
            scale = self._step_scale(self.generation)
            self._search.parameters = after = self._optimizer.step(before, gradient, scale)
            metrics["gradient_norm"] = float(np.linalg.norm(gradient))
            length = float(np.linalg.norm(before))
            metrics["update_ratio"] = float(np.linalg.norm(after - before)) / max(length, 1e-12)
        return {**self._search.advance(ordered), **metrics}

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays for workers."""
        return self._search.published()

    def state(self) -> State:
        """Return all learned state."""
        search, optimizer = self._search.state(), self._optimizer.state()
        return State(
            {**search.tensors, **optimizer.tensors}, {**search.counters, **optimizer.counters}
        )

    def load(self, state: State) -> None:
        """Load a state."""
        self._search.load(state)
        self._optimizer.load(state)

    def _gradient(
        self, ordered: Sequence[Evaluation], weights: Float[np.ndarray, " N"]
    ) -> Float32[np.ndarray, " P"]:
        """(1/N) Σ (u⁺ − u⁻) ε, or (1/N) Σ u ε where every member has an ε of its own.

        With subsets, coordinate j is divided by the number of members whose subset it is in.
        """
        size = self._search.parameters.size
        members = self._search.sampler.MEMBERS_PER_KEY
        signed = weights[0::2] - weights[1::2] if members == 2 else weights
        shares = (signed / len(ordered)).tolist()
        keys = [result.noise_key for result in ordered[::members]]
        noise = self._search.sampler.noise
        if self._fraction is None:
            return noise.weighted_sum(keys, shares, size, self._threads)
        ranges = [subset_range(key, size, self._fraction) for key in keys]
        total = weighted_noise_sum(
            noise.read, keys, shares, size, ranges=ranges, threads=self._threads
        )
        counts = np.zeros(size, dtype=np.float32)
        for start, stop in ranges:
            counts[start:stop] += 1.0
        return total * (np.float32(len(keys)) / np.maximum(counts, np.float32(1.0)))


def _refuse_great(weights: Float[np.ndarray, " N"]) -> None:
    """Raise before a step after which no other one could mend the optimiser's state."""
    if np.abs(weights).max() >= _GREATEST:
        raise FloatingPointError(
            f"fitness as shaped is {weights.min():g} to {weights.max():g}, whose gradient is too "
            "great for float32: take a smaller penalty, or ranks (--shaping centered-rank)"
        )
