"""AES-RL's population: what is asked, appended and told at the ends of jobs.

ask     warm-up: a random episode │ else z ~ strategy: ES, or RL after gradient steps on z, or on
        the newest RL individual (`chained`)
tell    the individual's first part ends → its episode enters the replay, its mean is evaluated;
        its second part ends → the strategy is told
barrier with `generation`, individuals begin together: once all earlier ones have been told
critic  a job of minibatches whenever it is idle and has taken fewer steps than the env;
        individuals begin once it has had a job, while it is not too far behind
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import one_episode
from drumline.populations.published_learner import PublishedLearner
from drumline.tasks import (
    CriticsTrained,
    EvaluateMean,
    GradientJob,
    Job,
    Live,
    Lived,
    MeanEvaluated,
    Snapshot,
    Told,
    TrainCritics,
)
from drumline.types import Candidate, EpisodeRow, Individual, Metrics, State

_ES, _RL, _WARMUP = range(3)
_COUNTERS = (
    "env_steps_counted",
    "env_steps_beside",
    "warmups_asked",
    "individuals",
    "critic_jobs",
    "living",
    "places",
)
_CANDIDATE, _AWAITING, _NEWEST = "candidate/", "second/", "newest_refined"
_METRICS = (
    *("kind", "fitness", "mean_fitness", "improvement_over_mean", "step_size", "update_norm"),
    *("accepted", "staleness_tells", "trust_region_share", "distance_moved"),
    *("variance_mean", "variance_min", "variance_max", "sampling_std", "condition_number"),
)
"""Columns of metrics.csv that every individual has, empty where its strategy says nothing."""


@dataclass(frozen=True)
class PopulationPlan:
    """Settings of AES-RL's population that stay constant during a run."""

    seed: int
    warmup_steps: int
    mean_evaluations: int
    batch_size: int
    critic_batches: int
    """Gradient steps of a critic job."""
    critic_lag: int
    """No individual begins before the critic's first job has ended, nor while its steps are this
    many behind the env's; 0: individuals do not wait for it."""
    recent_episodes: int
    """Recent episodes whose lengths set the actor steps."""
    actor_steps: Callable[[int], int]
    """Env steps of the recent episodes → gradient steps of an RL individual."""
    learns_critics: bool
    least_env_steps: int = 1
    generation: int = 0
    """Individuals that begin together, when all before them have been told; 0: no barrier."""
    chained: bool = False
    """Gradient steps go on from the newest refined individual, whose actions the critics' targets
    take: not from a sample, and not the mean's."""


class AwaitingMean(NamedTuple):
    """An individual that has lived and waits for the evaluation of the mean."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int
    kind: int
    episode_return: float
    length: int
    moved: float
    """‖z′ − z‖, by the gradient steps."""
    vector: np.ndarray
    mean_version: int | None = None
    """Individuals told before the ask of the mean's evaluation."""


class AESPopulation:
    """AES-RL's `Population`: its state follows from the order of the schedule's calls."""

    in_generations = False

    def __init__(
        self,
        plan: PopulationPlan,
        strategy: CandidateStrategy,
        choice: ActorChoice,
        critics: State,
        replay: QueuedReplay,
    ):
        self._plan = plan
        self._strategy = strategy
        self._choice = choice
        self._critics = PublishedLearner(critics, saved_as="critics/")
        self._replay = replay
        self._counters: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
        self._lengths: deque[int] = deque(maxlen=plan.recent_episodes)
        self._candidates: dict[int, tuple[Candidate, int]] = {}
        """Living individuals with their kind, by logical worker."""
        self._awaiting: dict[int, AwaitingMean] = {}
        self._newest_refined: np.ndarray | None = None
        """Parameters of the last refined individual to end, where refinements are a chain."""

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training, warm-up included."""
        return self._counters["env_steps_counted"]

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of the mean's evaluations."""
        return self._counters["env_steps_beside"]

    @property
    def parameters(self) -> np.ndarray:
        """Return the mean of the distribution."""
        return self._strategy.parameters

    def row(self, metrics: Metrics) -> Metrics:
        """Return an individual's columns."""
        return {
            **{name: metrics.get(name, float("nan")) for name in _METRICS},
            "rl_share": self._choice.rl_share,
            "critic_steps": float(self._critics.critic_steps),
        }

    def learned(self) -> dict[str, np.ndarray]:
        """Return the critics."""
        return {"critics": self._critics.critics}

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Return the whole queue: every event leaves a state to go on from."""
        return snapshot

    # the schedule's calls

    def env_steps(self, task: Any, result: Any) -> int:
        """Return the env steps that a job took."""
        if isinstance(result, Lived):
            return result.length
        return result.env_steps if isinstance(result, MeanEvaluated) else 0

    def tell(self, worker: int, task: Any, result: Lived | MeanEvaluated) -> Told:
        """Record an individual's first part; tell the strategy at the end of its second."""
        if isinstance(result, MeanEvaluated):
            self._counters["env_steps_beside"] += result.env_steps
            mean_fitness = sum(result.returns) / len(result.returns)
            return self._tell(self._awaiting.pop(worker), mean_fitness)
        appended = self._replay.append(
            one_episode(result.observations, result.actions, result.rewards, result.kind)
        )
        return self._lived(worker, task, result)._replace(appended=tuple(appended))

    def take_critic(self, task: TrainCritics, result: CriticsTrained) -> Told:
        """Install the critics that a job has trained."""
        self._critics.newest = result.state
        return Told(result.metrics, settled=True)

    def ask_critic(self) -> Job | None:
        """Return a critic job while the critic has taken fewer steps than the environment."""
        plan = self._plan
        if not self._critic_learns() or self._steps_behind() <= 0:
            return None
        number = self._counters["critic_jobs"]
        self._counters["critic_jobs"] += 1
        watermark = self._replay.watermark
        seed = seeding.seeds(plan.seed, 1, "critic-job", number)[0]
        job = GradientJob(plan.critic_batches, watermark, seed)
        newest = self._newest_refined
        target = self._strategy.parameters if newest is None else newest
        task = TrainCritics(self._critics.publish(target), number, job)
        return Job.training(task, job)

    def ask(self, worker: int) -> Job | None:
        """Return the individual's second part, or a new individual."""
        plan = self._plan
        if worker in self._awaiting:
            lived = self._awaiting[worker]._replace(mean_version=self._told)
            self._awaiting[worker] = lived
            seed = seeding.seeds(plan.seed, 1, "mean-evaluations", lived.index)[0]
            version = self._critics.publish(self._strategy.parameters)
            task = EvaluateMean(version, lived.index, seed, plan.mean_evaluations)
            least = plan.mean_evaluations * plan.least_env_steps
            return Job(task, version, least_env_steps=least)
        if self.env_steps_counted < plan.warmup_steps:
            index = self._counters["warmups_asked"]
            self._counters["warmups_asked"] += 1
            self._counters["living"] += 1
            seed = seeding.seeds(plan.seed, 1, "warm-up-episode", index)[0]
            version = self._critics.publish(self._strategy.parameters)
            task = Live(version, index, seed, None, True)
            return Job(task, version, least_env_steps=plan.least_env_steps)
        return self._individual(worker) if self._admits() else None

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the latest job."""
        return self._critics.latest

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that every version has."""
        return self._critics.arrays(self._strategy.parameters)

    def fill(self, oldest: int | None) -> int:
        """Move waiting transitions into the ring, as far as the windows in use allow."""
        return self._replay.fill(oldest)

    # state

    def state(self) -> State:
        """Return all state that the schedule's snapshot does not hold."""
        tensors = {"recent_lengths": np.array(self._lengths, np.int64)}
        for worker, (candidate, kind) in self._candidates.items():
            tensors[f"{_CANDIDATE}{worker}"] = candidate.vector
            tensors[f"{_CANDIDATE}{worker}/numbers"] = np.array(
                [candidate.index, candidate.version, kind], np.int64
            )
        for worker, lived in self._awaiting.items():
            tensors[f"{_AWAITING}{worker}"] = lived.vector
            numbers = (lived.index, lived.version, lived.kind, lived.length)
            tensors[f"{_AWAITING}{worker}/numbers"] = np.array(numbers, np.int64)
            tensors[f"{_AWAITING}{worker}/values"] = np.array([lived.episode_return, lived.moved])
            if lived.mean_version is not None:
                tensors[f"{_AWAITING}{worker}/mean"] = np.array([lived.mean_version], np.int64)
        if self._newest_refined is not None:
            tensors[_NEWEST] = self._newest_refined
        return State.merged(
            self._strategy.state(),
            self._choice.state(),
            self._critics.state(),
            State(tensors, {**self._counters}),
        )

    def load(self, state: State) -> None:
        """Take over a state."""
        self._strategy.load(state)
        self._choice.load(state)
        self._critics.load(state)
        tensors = state.tensors
        self._counters = {name: int(state.counter(name)) for name in _COUNTERS}
        self._lengths.clear()
        self._lengths.extend(state.tensor("recent_lengths").tolist())
        self._candidates = {}
        for worker, vector in _by_worker(tensors, _CANDIDATE):
            index, version, kind = tensors[f"{_CANDIDATE}{worker}/numbers"].tolist()
            self._candidates[worker] = (Candidate(index, version, vector), kind)
        self._awaiting = {}
        for worker, vector in _by_worker(tensors, _AWAITING):
            index, version, kind, length = tensors[f"{_AWAITING}{worker}/numbers"].tolist()
            episode_return, moved = tensors[f"{_AWAITING}{worker}/values"].tolist()
            told = tensors.get(f"{_AWAITING}{worker}/mean")
            mean_version = None if told is None else int(told[0])
            self._awaiting[worker] = AwaitingMean(
                index, version, kind, episode_return, length, moved, vector, mean_version
            )
        self._newest_refined = tensors.get(_NEWEST)

    @property
    def _told(self) -> int:
        """Individuals that the strategy has been told."""
        return self._counters["individuals"] - len(self._candidates) - len(self._awaiting)

    def _critic_learns(self) -> bool:
        plan = self._plan
        warm = self.env_steps_counted >= plan.warmup_steps
        return plan.learns_critics and warm and self._replay.watermark >= plan.batch_size

    def _steps_behind(self) -> int:
        return self.env_steps_counted - self._critics.critic_steps

    def _waits_for_critic(self) -> bool:
        # It has a job whenever it learns and is behind, and that job's end asks again.
        if not self._plan.critic_lag or not self._critic_learns():
            return False
        return self._critics.critic_steps == 0 or self._steps_behind() >= self._plan.critic_lag

    def _admits(self) -> bool:
        """Whether another individual may begin now."""
        counters, generation = self._counters, self._plan.generation
        if self._waits_for_critic():
            return False
        if not generation:
            return True
        if not counters["places"] and not counters["living"]:
            counters["places"] = generation
        if not counters["places"]:
            return False
        counters["places"] -= 1
        return True

    def _individual(self, worker: int) -> Job:
        plan = self._plan
        self._counters["living"] += 1
        (candidate,) = self._strategy.ask(1)
        watermark = self._replay.watermark
        steps = plan.actor_steps(sum(self._lengths)) if watermark >= plan.batch_size else 0
        refined = steps > 0 and self._choice.refines(candidate.index)
        self._counters["individuals"] += 1
        if refined and self._newest_refined is not None:
            candidate = candidate._replace(vector=self._newest_refined)
        self._candidates[worker] = (candidate, _RL if refined else _ES)
        version = self._critics.publish(candidate.vector)
        seed = seeding.seeds(plan.seed, 1, "individual-episode", candidate.index)[0]
        if not refined:
            task = Live(version, candidate.index, seed, None, False)
            return Job(task, version, least_env_steps=plan.least_env_steps)
        root = seeding.seeds(plan.seed, 1, "refine-job", candidate.index)[0]
        job = GradientJob(steps, watermark, root)
        return Job(
            Live(version, candidate.index, seed, job, False),
            version,
            gradient_steps=steps,
            least_env_steps=plan.least_env_steps,
            transitions=watermark,
            watermark=watermark,
        )

    def _lived(self, worker: int, task: Live, result: Lived) -> Told:
        """Count an individual's first part, and tell it if no mean is evaluated beside it."""
        self._counters["env_steps_counted"] += result.length
        self._lengths.append(result.length)
        if task.random:
            self._counters["living"] -= 1
            row = EpisodeRow(0, task.index, 0, result.episode_return, result.length)
            metrics = {"kind": float(_WARMUP), "fitness": result.episode_return}
            return Told(metrics, (row,), settled=True)
        candidate, kind = self._candidates.pop(worker)
        vector, moved = candidate.vector, 0.0
        if result.vector is not None:
            moved = float(np.linalg.norm(result.vector.astype(np.float64) - vector))
            vector = result.vector
            if self._plan.chained:
                self._newest_refined = vector
        lived = AwaitingMean(
            candidate.index,
            candidate.version,
            kind,
            result.episode_return,
            result.length,
            moved,
            vector,
        )
        if self._plan.mean_evaluations:
            self._awaiting[worker] = lived
            return Told({}, settled=True)
        return self._tell(lived, None)

    def _tell(self, lived: AwaitingMean, mean_fitness: float | None) -> Told:
        told = Individual(
            lived.index,
            lived.version,
            lived.vector,
            lived.episode_return,
            mean_fitness,
            refined=lived.kind == _RL,
            mean_version=lived.mean_version,
        )
        metrics = self._strategy.tell([told])
        self._counters["living"] -= 1
        row = EpisodeRow(0, lived.index, 0, lived.episode_return, lived.length)
        beside: Metrics = {}
        if mean_fitness is not None:
            improvement = lived.episode_return - mean_fitness
            beside = {"mean_fitness": mean_fitness, "improvement_over_mean": improvement}
        told_metrics = {
            **beside,
            "accepted": float(metrics["update_norm"] > 0.0),
            **metrics,
            "kind": float(lived.kind),
            "fitness": lived.episode_return,
            "distance_moved": lived.moved,
        }
        return Told(told_metrics, (row,), settled=True)


def _by_worker(tensors: Mapping[str, np.ndarray], prefix: str) -> list[tuple[int, np.ndarray]]:
    """Return the vectors whose name is the prefix and a worker's number, by worker."""
    names = [name for name in tensors if name.startswith(prefix) and name.count("/") == 1]
    workers = sorted(int(name.removeprefix(prefix)) for name in names)
    return [(worker, tensors[f"{prefix}{worker}"]) for worker in workers]
