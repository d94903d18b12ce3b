"""CEM-RL's generations as a population: a barrier is a population that has no job to give.

    ask N ─ critics' turns ─ R members are refined ─ all N live ┃ replay, tell ┃ (mean) ─ ask N …

Members enter the replay and are told by index, when the last one has lived: with turns that do
not run beside the population, nothing depends on the order in which jobs end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drumline import seeding
from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.algorithms.individuals import norm
from drumline.buffers.queued_replay import QueuedReplay
from drumline.populations.barrier_population import BarrierPopulation, lived_summary
from drumline.populations.critic_turns import CriticTurns
from drumline.populations.published_learner import PublishedLearner
from drumline.tasks import (
    CriticsTrained,
    EvaluateMean,
    GradientJob,
    Job,
    Live,
    Lived,
    MeanEvaluated,
    Told,
    TrainCritics,
)
from drumline.types import Candidate, EpisodeRow, Individual, Metrics, State

_COUNTERS = ("warmups_asked", "critic_jobs", "generation_env_steps")
_COLUMNS = (
    *("warm_up", "fitness_mean", "fitness_std", "fitness_min", "fitness_max"),
    *("fitness_es_mean", "fitness_rl_mean", "mean_fitness", "distance_moved"),
    *("episode_length_mean", "actor_steps", "critic_steps", "critic_loss"),
    *("update_norm", "damp", "variance_mean", "variance_min", "variance_max"),
)
"""Columns of metrics.csv that every generation has, empty where it has no value."""


@dataclass(frozen=True)
class GenerationalPlan:
    """Settings of CEM-RL's population that stay constant during a run."""

    seed: int
    population_size: int
    refined_members: int
    warmup_steps: int
    random_warmup: bool
    """Whether the warm-up is episodes with random actions that the strategy is not told of."""
    mean_evaluations: int
    batch_size: int
    actor_steps: Callable[[int], int]
    """Env steps of the generation before → gradient steps of a refined member."""
    critic_steps: Callable[[int], int]
    """Env steps of the generation before → gradient steps that are due for this one."""
    throttle_critic: bool = False
    """Whether the critics take no more gradient steps than there were env steps."""
    least_env_steps: int = 1


@dataclass
class _Generation:
    """A generation between two barriers."""

    random: bool
    vectors: list[np.ndarray]
    first: int
    """Index of its first candidate, or warm-up episode."""
    refined: int
    actor_steps: int
    waiting: list[int]
    candidates: list[Candidate] = field(default_factory=list)
    lived: dict[int, Lived] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    row: Metrics | None = None
    """Known once all members have lived: only the mean's evaluation is left."""
    mean_asked: bool = False


class GenerationPopulation(BarrierPopulation[CandidateStrategy, _Generation]):
    """CEM-RL's population: the plan and the turns fix its jobs between two barriers."""

    def __init__(
        self,
        plan: GenerationalPlan,
        strategy: CandidateStrategy,
        turns: CriticTurns,
        critics: State,
        replay: QueuedReplay,
    ):
        newest = PublishedLearner(critics, saved_as="critics/")
        super().__init__(strategy, newest, replay, counters=_COUNTERS, columns=_COLUMNS)
        self._plan = plan
        self._turns = turns

    def learned(self) -> dict[str, np.ndarray]:
        """Return the critics."""
        return {"critics": self._learner.critics}

    # the schedule's calls

    def tell(self, worker: int, task: Any, result: Lived | MeanEvaluated) -> Told:
        """Wait for the last member; then tell all, and evaluate the mean."""
        generation = self._current()
        if isinstance(result, MeanEvaluated):
            self._counters["env_steps_beside"] += result.env_steps
            assert generation.row is not None, "the mean is evaluated when all have lived"
            mean_fitness = sum(result.returns) / len(result.returns)
            return self._end({**generation.row, "mean_fitness": mean_fitness})
        generation.lived[task.index - generation.first] = result
        if len(generation.lived) < self._plan.population_size:
            return Told({})
        lived = [generation.lived[member] for member in range(len(generation.lived))]
        appended = self._remember(lived)
        generation.row = self._learn(generation, lived)
        if self._plan.mean_evaluations and not generation.random:
            return Told({}, appended=appended)
        return self._end(generation.row)._replace(appended=appended)

    def take_critic(self, task: TrainCritics, result: CriticsTrained) -> Told:
        """Install the critics that a job has trained."""
        self._learner.newest = result.state
        self._turns.take(result.state)
        self._current().losses.append(result.metrics["critic_loss"])
        return Told(result.metrics)

    def ask_critic(self) -> Job | None:
        """Return the critics' next turn, if one is due."""
        plan = self._plan
        self._current()
        watermark = self._replay.watermark
        full = plan.throttle_critic and self._learner.critic_steps >= self.env_steps_counted
        if full or not self._learns(watermark):
            return None
        turn = self._turns.due(self.parameters)
        if turn is None:
            return None
        number = self._counters["critic_jobs"]
        self._counters["critic_jobs"] += 1
        seed = seeding.seeds(plan.seed, 1, "critic-job", number)[0]
        job = GradientJob(turn.steps, watermark, seed)
        task = TrainCritics(self._learner.publish(turn.target_actor), number, job)
        return Job.training(task, job)

    def ask(self, worker: int) -> Job | None:
        """Return the next member that need not wait, or the mean's evaluation, or None."""
        generation = self._current()
        if generation.row is not None:
            return None if generation.mean_asked else self._evaluation(generation)
        for member in generation.waiting:
            critics = self._turns.critics_of(member)
            if critics is not None:
                generation.waiting.remove(member)
                return self._member(generation, member, critics)
        return None

    # generations

    def _learns(self, watermark: int) -> bool:
        """Whether there is enough in the replay for gradient steps."""
        plan = self._plan
        return self.env_steps_counted >= plan.warmup_steps and watermark >= plan.batch_size

    def _begin(self) -> _Generation:
        plan, counters = self._plan, self._counters
        size = plan.population_size
        members = list(range(size))
        if plan.random_warmup and self.env_steps_counted < plan.warmup_steps:
            first = counters["warmups_asked"]
            counters["warmups_asked"] += size
            self._turns.begin((), 0, self._learner.newest)
            return _Generation(True, [self.parameters] * size, first, 0, 0, members)
        candidates = self._strategy.ask(size)
        vectors = [candidate.vector for candidate in candidates]
        before = counters["generation_env_steps"]
        steps = plan.actor_steps(before) if self._learns(self._replay.watermark) else 0
        refined = plan.refined_members if steps else 0
        due = plan.critic_steps(before) if refined else 0
        self._turns.begin(vectors[:refined], due, self._learner.newest)
        first = candidates[0].index
        return _Generation(False, vectors, first, refined, steps, members, candidates)

    def _member(self, generation: _Generation, member: int, critics: State) -> Job:
        plan = self._plan
        index = generation.first + member
        version = self._learner.publish(generation.vectors[member], critics)
        role = "warm-up-episode" if generation.random else "individual-episode"
        seed = seeding.seeds(plan.seed, 1, role, index)[0]
        if member >= generation.refined:
            task = Live(version, index, seed, None, generation.random)
            return Job(task, version, least_env_steps=plan.least_env_steps)
        watermark = self._replay.watermark
        root = seeding.seeds(plan.seed, 1, "refine-job", index)[0]
        job = GradientJob(generation.actor_steps, watermark, root)
        return Job(
            Live(version, index, seed, job, False),
            version,
            gradient_steps=job.steps,
            least_env_steps=plan.least_env_steps,
            transitions=watermark,
            watermark=watermark,
        )

    def _evaluation(self, generation: _Generation) -> Job:
        plan = self._plan
        generation.mean_asked = True
        number = self._counters["generations"]
        seed = seeding.seeds(plan.seed, 1, "mean-evaluations", number)[0]
        version = self._learner.publish(self.parameters)
        task = EvaluateMean(version, number, seed, plan.mean_evaluations)
        return Job(task, version, least_env_steps=plan.mean_evaluations * plan.least_env_steps)

    def _learn(self, generation: _Generation, lived: Sequence[Lived]) -> Metrics:
        """Tell the strategy a whole generation, by member."""
        self._counters["generation_env_steps"] = sum(one.length for one in lived)
        returns = [one.episode_return for one in lived]
        row = {
            "warm_up": float(generation.random),
            **lived_summary(lived, returns),
            "actor_steps": float(generation.actor_steps if generation.refined else 0),
        }
        if generation.random:
            return row
        told = [
            Individual(
                candidate.index,
                candidate.version,
                candidate.vector if one.vector is None else one.vector,
                one.episode_return,
            )
            for candidate, one in zip(generation.candidates, lived, strict=True)
        ]
        moved = [
            norm(after.vector - candidate.vector)
            for candidate, after in zip(generation.candidates, told, strict=True)
        ]
        row |= self._strategy.tell(told)
        refined = generation.refined
        if refined:
            row["fitness_rl_mean"] = float(np.mean(returns[:refined]))
            row["distance_moved"] = float(np.mean(moved[:refined]))
        if refined < len(returns):
            row["fitness_es_mean"] = float(np.mean(returns[refined:]))
        return row

    def _end(self, row: Metrics) -> Told:
        generation = self._current()
        lived = [generation.lived[member] for member in range(len(generation.lived))]
        rows = [
            EpisodeRow(0, member, 0, one.episode_return, one.length)
            for member, one in enumerate(lived)
        ]
        losses: Sequence[float] = generation.losses
        loss = {"critic_loss": float(np.mean(losses))} if losses else {}
        critic_steps = {"critic_steps": float(self._learner.critic_steps)}
        return self._reach({**row, **loss, **critic_steps}, rows)
