"""SearchState of OpenAI-ES and ARS: parameters, generation counter, cap and moments."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float32

from drumline.algorithms.episode_cap import EpisodeCap, NoCap
from drumline.algorithms.mirrored import IndependentSampler, MirroredSampler, in_member_order
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.functional.annealing import decaying
from drumline.functional.perturbation import perturb, subset_range
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Metrics, State

StdSchedule = Callable[[int], float]
"""Generation → std of the search distribution."""


def constant_std(std: float) -> StdSchedule:
    """A constant σ: the paper found no benefit in adapting it."""
    return decaying_std(std, 1.0, 0.0)


def decaying_std(std: float, decay: float, floor: float) -> StdSchedule:
    """σ_g = max(floor, σ · decay^g)."""
    if not std > 0.0:
        raise ValueError(f"std must be above 0, got {std}")
    return decaying(std, decay, floor)


class SearchState:
    """Parameters of a search distribution, and the settings of its tasks."""

    def __init__(
        self,
        parameters: Float32[np.ndarray, " P"],
        sampler: MirroredSampler | IndependentSampler,
        std: StdSchedule,
        *,
        moments: ObservationMoments | None = None,
        episode_cap: EpisodeCap | None = None,
        subset_fraction: float | None = None,
    ):
        self.parameters = np.array(parameters, dtype=np.float32)
        self.generation = 0
        self.sampler = sampler
        self.subset_fraction = subset_fraction
        self._std = std
        self._moments = moments
        self._cap_rule = episode_cap or NoCap()
        self._cap = self._cap_rule.initial
        self._asked = 0

    def ask(self, count: int) -> list[Evaluate]:
        """Return the tasks of the next `count` members of this generation."""
        tasks = self.sampler.tasks(
            self.generation,
            self._asked,
            count,
            std=self._std(self.generation),
            episode_cap=self._cap,
        )
        self._asked += count
        return tasks

    def candidate(self, task: Evaluate) -> Float32[np.ndarray, " P"]:
        """Return the perturbed parameters of a task, for a user's own loop."""
        out = np.empty_like(self.parameters)
        within = None
        if self.subset_fraction is not None:
            within = subset_range(task.noise_key, out.size, self.subset_fraction)
        read = self.sampler.noise.read
        perturb(self.parameters, read, task.noise_key, task.sign * task.std, out, within)
        return out

    def accept(self, results: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the results of this generation by member; ValueError if it is not whole."""
        members_per_key = self.sampler.MEMBERS_PER_KEY
        return in_member_order(results, self.generation, members_per_key)

    def advance(self, ordered: Sequence[Evaluation]) -> Metrics:
        """Fold moments, set the next cap and begin the next generation."""
        returns = np.array([result.episode_return for result in ordered])
        lengths = [result.length for result in ordered]
        metrics: Metrics = {
            "episode_return_mean": float(returns.mean()),
            "episode_return_std": float(returns.std()),
            "episode_return_min": float(returns.min()),
            "episode_return_max": float(returns.max()),
            "episode_length_mean": sum(lengths) / len(lengths),
            "std": ordered[0].std,
            "episode_cap_env_steps": float(self._cap),
            "parameter_norm": float(np.linalg.norm(self.parameters)),
        }
        if self._moments is not None:
            self._moments.fold(ordered)
            metrics["observation_count"] = self._moments.count
        self._cap = self._cap_rule.following(self._cap, lengths)
        self.generation += 1
        self._asked = 0
        return metrics

    def published(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters and the observation moments."""
        moments = self._moments.published() if self._moments is not None else {}
        return {"parameters": self.parameters.copy(), **moments}

    def state(self) -> State:
        """Return all learned state, without `_asked`: tasks in flight are asked again."""
        moments = self._moments.state() if self._moments is not None else State()
        return State(
            {"parameters": self.parameters.copy(), **moments.tensors},
            {"generation": self.generation, "episode_cap": self._cap, **moments.counters},
        )

    def load(self, state: State) -> None:
        """Load a state."""
        self.parameters = state.tensor("parameters", like=self.parameters)
        self.generation = int(state.counter("generation"))
        self._cap = int(state.counter("episode_cap"))
        self._asked = 0
        if self._moments is not None:
            self._moments.load(state)
