"""Augmented random search (Mania, Guy & Recht 2018, arXiv 1803.07055): V1, V2, V1-t, V2-t."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from drumline.algorithms.episode_cap import EpisodeCap
from drumline.algorithms.mirrored import MirroredSampler, finite_fitness, one_vector
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.search_state import SearchState, StdSchedule, constant_std
from drumline.functional.perturbation import counter_noise, weighted_noise_sum
from drumline.functional.top_directions import top_direction_weights
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Metrics, State


class ARS:
    """θ ← θ + α / (b σ_R) Σ over the b best directions of (r⁺ − r⁻) δ (Algorithm 2).

    V2 normalises observations (give `moments`), V1 does not; "-t" keeps `top_directions` < N/2.
    σ_R is the std of the 2b returns used. If it is 0 no step is taken.
    """

    def __init__(
        self,
        parameters: Float32[np.ndarray, " P"],
        sampler: MirroredSampler,
        std: StdSchedule,
        *,
        learning_rate: float,
        top_directions: int | None = None,
        moments: ObservationMoments | None = None,
        episode_cap: EpisodeCap | None = None,
        update_threads: int = 1,
    ):
        self._search = SearchState(
            parameters, sampler, std, moments=moments, episode_cap=episode_cap
        )
        self._learning_rate = learning_rate
        self._top = top_directions
        self._threads = update_threads

    @staticmethod
    def simple(
        parameters: Float[np.ndarray, " P"],
        *,
        std: float = 0.03,
        learning_rate: float = 0.02,
        top_directions: int | None = None,
        seed: int = 0,
    ) -> "ARS":
        """Return a strategy with counter noise, for a user's own loop."""
        start = one_vector(parameters)
        sampler = MirroredSampler(seed, counter_noise(seed))
        return ARS(
            start,
            sampler,
            constant_std(std),
            learning_rate=learning_rate,
            top_directions=top_directions,
        )

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
        """Take one step from a whole generation, with its results in any order."""
        ordered = self._search.accept(results)
        fitness = finite_fitness(ordered)
        top = self._top if self._top is not None else len(ordered) // 2
        weights = top_direction_weights(fitness[0::2], fitness[1::2], top)
        skipped = not weights.any()
        metrics: Metrics = {"update_skipped": float(skipped), "gradient_norm": 0.0}
        metrics["update_ratio"] = 0.0
        if not skipped:
            before = self._search.parameters
            gradient = weighted_noise_sum(
                self._search.sampler.noise.read,
                [result.noise_key for result in ordered[::2]],
                weights.tolist(),
                before.size,
                threads=self._threads,
            )
            step = np.float32(self._learning_rate) * gradient
            self._search.parameters = before + step
            metrics["gradient_norm"] = float(np.linalg.norm(gradient))
            length = float(np.linalg.norm(before))
            metrics["update_ratio"] = float(np.linalg.norm(step)) / max(length, 1e-12)
        return {**self._search.advance(ordered), **metrics}

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays for workers."""
        return self._search.published()

    def state(self) -> State:
        """Return all learned state."""
        return self._search.state()

    def load(self, state: State) -> None:
        """Load a state."""
        self._search.load(state)
