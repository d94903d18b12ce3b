"""Population of individuals that an objective evaluates: no replay, no critic, no gradient steps.

ask     z ~ strategy: one call at z │ after it, calls at the mean, if the mean is evaluated beside
tell    the individual's last part ends → the strategy is told
barrier with `generation`, individuals begin together: once all earlier ones have been told
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.tasks import Evaluate, EvaluateMean, Evaluation, Job, MeanEvaluated, Snapshot, Told
from drumline.types import Candidate, EpisodeRow, Individual, Metrics, State

_COUNTERS = ("env_steps_counted", "env_steps_beside", "jobs", "living", "places")
_TOLD = "told"
"""Counter of the individuals that the strategy has been told; older runs have none."""
_CANDIDATE = "candidate/"
_METRICS = (
    *("kind", "fitness", "mean_fitness", "improvement_over_mean", "step_size", "update_norm"),
    *("accepted", "staleness_tells", "trust_region_share", "distance_moved"),
    *("variance_mean", "variance_min", "variance_max", "sampling_std", "condition_number"),
)
"""Columns of metrics.csv, those of AES-RL's individuals; `kind` is always that of ES."""
_ES = 0.0


@dataclass(frozen=True)
class ObjectivePlan:
    """Settings of the population that stay constant during a run."""

    seed: int
    mean_evaluations: int
    """Calls at the mean beside each individual."""
    seeds_per_call: int
    generation: int = 0
    """Individuals that begin together, when all before them have been told; 0: no barrier."""


class _Living(NamedTuple):
    """An individual between its ask and its tell; `fitness` is None before its own call ends."""

    candidate: Candidate
    fitness: float | None
    length: int
    mean_version: int | None = None
    """Individuals told before the ask of the mean's evaluation beside it."""


class ObjectivePopulation:
    """The `Population` of an objective: its state follows from the order of the calls."""

    in_generations = False

    def __init__(self, plan: ObjectivePlan, strategy: CandidateStrategy):
        self._plan = plan
        self._strategy = strategy
        self._counters: dict[str, int] = dict.fromkeys((*_COUNTERS, _TOLD), 0)
        self._living: dict[int, _Living] = {}
        """Individuals by logical worker."""
        self._latest = self.arrays()

    @property
    def env_steps_counted(self) -> int:
        """Return the evaluations of training."""
        return self._counters["env_steps_counted"]

    @property
    def env_steps_beside(self) -> int:
        """Return the evaluations of the mean."""
        return self._counters["env_steps_beside"]

    @property
    def parameters(self) -> np.ndarray:
        """Return the mean of the distribution."""
        return self._strategy.parameters

    def row(self, metrics: Metrics) -> Metrics:
        """Return an individual's columns."""
        return {name: metrics.get(name, float("nan")) for name in _METRICS}

    def learned(self) -> dict[str, np.ndarray]:
        """Return nothing: all that is learned is the distribution."""
        return {}

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Return the whole queue: every event leaves a state to go on from."""
        return snapshot

    # the schedule's calls

    def env_steps(self, task: Any, result: Evaluation | MeanEvaluated) -> int:
        """Return the evaluations that a job took."""
        return result.length if isinstance(result, Evaluation) else result.env_steps

    def tell(self, worker: int, task: Any, result: Evaluation | MeanEvaluated) -> Told:
        """Record an individual's own call; tell the strategy at the end of its last part."""
        living = self._living[worker]
        if isinstance(result, MeanEvaluated):
            self._counters["env_steps_beside"] += result.env_steps
            return self._tell(worker, living, sum(result.returns) / len(result.returns))
        self._counters["env_steps_counted"] += result.length
        living = living._replace(fitness=result.fitness, length=result.length)
        if self._plan.mean_evaluations:
            self._living[worker] = living
            return Told({}, settled=True)
        return self._tell(worker, living, None)

    def take_critic(self, task: Any, result: Any) -> Told:
        """Raise: no critic job is ever asked."""
        raise RuntimeError("an objective has no critic")

    def ask_critic(self) -> Job | None:
        """Return None: there is no critic."""
        return None

    def ask(self, worker: int) -> Job | None:
        """Return the evaluation of the mean beside an individual, or a new individual."""
        plan = self._plan
        if worker in self._living:
            living = self._living[worker]._replace(mean_version=self._counters[_TOLD])
            self._living[worker] = living
            index = living.candidate.index
            seed = seeding.seeds(plan.seed, 1, "mean-evaluations", index)[0]
            version = self._publish(self._strategy.parameters)
            task = EvaluateMean(version, index, seed, plan.mean_evaluations)
            least = plan.mean_evaluations * plan.seeds_per_call
            return Job(task, version, least_env_steps=least)
        if not self._admits():
            return None
        self._counters["living"] += 1
        (candidate,) = self._strategy.ask(1)
        self._living[worker] = _Living(candidate, None, 0)
        seed = seeding.seeds(plan.seed, 1, "individual-episode", candidate.index)[0]
        version = self._publish(candidate.vector)
        task = Evaluate(version, candidate.index, 0, 0, seed, 0.0, 0, False, True)
        return Job(task, version, least_env_steps=plan.seeds_per_call)

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the latest job."""
        return self._latest

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that every version has."""
        return {"parameters": np.array(self._strategy.parameters, np.float32)}

    def fill(self, oldest: int | None) -> int:
        """Return 0: there is no replay."""
        return 0

    # state

    def state(self) -> State:
        """Return all state that the schedule's snapshot does not hold."""
        tensors: dict[str, np.ndarray] = {}
        for worker, (candidate, fitness, length, mean_version) in self._living.items():
            tensors[f"{_CANDIDATE}{worker}"] = candidate.vector
            numbers = (candidate.index, candidate.version, length)
            tensors[f"{_CANDIDATE}{worker}/numbers"] = np.array(numbers, np.int64)
            known = [] if fitness is None else [fitness]
            tensors[f"{_CANDIDATE}{worker}/fitness"] = np.array(known, np.float64)
            if mean_version is not None:
                tensors[f"{_CANDIDATE}{worker}/mean"] = np.array([mean_version], np.int64)
        return State.merged(self._strategy.state(), State(tensors, {**self._counters}))

    def load(self, state: State) -> None:
        """Take over a state."""
        self._strategy.load(state)
        self._counters = {name: int(state.counter(name)) for name in _COUNTERS}
        self._counters[_TOLD] = int(state.counters.get(_TOLD, 0))
        names = [n for n in state.tensors if n.startswith(_CANDIDATE) and n.count("/") == 1]
        self._living = {}
        for worker in sorted(int(name.removeprefix(_CANDIDATE)) for name in names):
            place = f"{_CANDIDATE}{worker}"
            index, version, length = state.tensor(f"{place}/numbers").tolist()
            fitness = next(iter(state.tensor(f"{place}/fitness").tolist()), None)
            candidate = Candidate(index, version, state.tensor(place))
            told = state.tensors.get(f"{place}/mean")
            mean_version = None if told is None else int(told[0])
            self._living[worker] = _Living(candidate, fitness, length, mean_version)

    def _publish(self, vector: np.ndarray) -> int:
        self._counters["jobs"] += 1
        self._latest = {"parameters": np.array(vector, np.float32)}
        return self._counters["jobs"]

    def _admits(self) -> bool:
        """Whether another individual may begin now."""
        counters, generation = self._counters, self._plan.generation
        if not generation:
            return True
        if not counters["places"] and not counters["living"]:
            counters["places"] = generation
        if not counters["places"]:
            return False
        counters["places"] -= 1
        return True

    def _tell(self, worker: int, living: _Living, mean_fitness: float | None) -> Told:
        candidate, fitness, length, mean_version = living
        assert fitness is not None, "an individual is told after its own call"
        del self._living[worker]
        individual = Individual(
            candidate.index,
            candidate.version,
            candidate.vector,
            fitness,
            mean_fitness,
            mean_version=mean_version,
        )
        metrics = self._strategy.tell([individual])
        self._counters[_TOLD] += 1
        self._counters["living"] -= 1
        beside: Metrics = {}
        if mean_fitness is not None:
            improvement = fitness - mean_fitness
            beside = {"mean_fitness": mean_fitness, "improvement_over_mean": improvement}
        told = {
            **beside,
            "accepted": float(metrics["update_norm"] > 0.0),
            **metrics,
            "kind": _ES,
            "fitness": fitness,
            "distance_moved": 0.0,
        }
        return Told(told, (EpisodeRow(0, candidate.index, 0, fitness, length),), settled=True)
