"""ERL's generations as a population (Khadka & Tumer 2018): a genetic algorithm and a DDPG actor.

    N members and the RL actor live ┃ replay, breed ─ the RL actor learns ─ (joins) ┃ N members …

An episode runs on any worker; episodes enter the replay by member, the RL actor's last. No result
depends on the order in which jobs end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drumline import seeding
from drumline.algorithms.ga import GA
from drumline.buffers.queued_replay import QueuedReplay
from drumline.populations.barrier_population import BarrierPopulation, lived_summary
from drumline.populations.published_learner import PublishedLearner
from drumline.tasks import (
    LEARNER,
    EvaluateMean,
    Explore,
    GradientJob,
    Job,
    LearnerTrained,
    Live,
    Lived,
    MeanEvaluated,
    Told,
    TrainLearner,
)
from drumline.types import Candidate, EpisodeRow, Individual, Metrics, State

_COUNTERS = ("injections",)
_COLUMNS = (
    *("fitness_mean", "fitness_std", "fitness_min", "fitness_max", "fitness_rl", "mean_fitness"),
    *("episode_length_mean", "update_norm", "joined", "injections"),
    *("gradient_steps", "critic_loss", "policy_value"),
)
"""Columns of metrics.csv that every generation has, empty where it has no value."""


@dataclass(frozen=True)
class ERLPlan:
    """Settings of ERL's population that stay constant during a run."""

    seed: int
    population_size: int
    episodes_per_member: int
    sync_every: int
    """Generations from one joining of the RL actor to the next."""
    warmup_steps: int
    least_transitions: int
    """Transitions that the replay must hold before the first gradient step."""
    gradient_steps: Callable[[int], int]
    """Env steps of a generation → gradient steps after it."""
    mean_evaluations: int
    noise: tuple[float, float, float]
    """θ, σ and scale of the RL actor's exploration."""


@dataclass
class _Generation:
    candidates: list[Candidate]
    waiting: list[int]
    """Episodes that no worker has begun: those of member m are m k … m k + k − 1, the RL actor's is
    the last."""
    lived: dict[int, Lived] = field(default_factory=dict)
    row: Metrics | None = None
    """Known once all members have lived."""
    due: int = 0
    """Gradient steps that no job has taken up yet."""
    learns: bool = False
    champion_asked: bool = False


class ERLPopulation(BarrierPopulation[GA, _Generation]):
    """ERL's population: all members live, then the RL actor learns; no job crosses the barrier."""

    def __init__(self, plan: ERLPlan, strategy: GA, learner: State, replay: QueuedReplay):
        newest = PublishedLearner(learner, saved_as=LEARNER, published_as=LEARNER)
        super().__init__(strategy, newest, replay, counters=_COUNTERS, columns=_COLUMNS)
        self._plan = plan

    def learned(self) -> dict[str, np.ndarray]:
        """Return the RL actor and its critic."""
        return {"rl_actor": self._rl_actor, "critics": self._learner.critics}

    # the schedule's calls

    def tell(self, worker: int, task: Any, result: Lived | MeanEvaluated) -> Told:
        """Wait for the last episode; then breed."""
        generation = self._current()
        if isinstance(result, MeanEvaluated):
            self._counters["env_steps_beside"] += result.env_steps
            assert generation.row is not None, "the champion is known when all have lived"
            generation.row["mean_fitness"] = sum(result.returns) / len(result.returns)
            return self._end(generation)
        generation.lived[task.index % self._episodes] = result
        if len(generation.lived) < self._episodes:
            return Told({})
        lived = [generation.lived[episode] for episode in range(self._episodes)]
        appended = self._remember(lived)
        generation.row = self._breed(generation, lived)
        return self._go_on(generation)._replace(appended=appended)

    def take_critic(self, task: TrainLearner, result: LearnerTrained) -> Told:
        """Install the RL actor and its critic; the actor joins every `sync_every` generations."""
        generation, plan = self._current(), self._plan
        assert generation.row is not None, "the RL actor learns when all have lived"
        self._learner.newest = result.state
        joins = (self._counters["generations"] + 1) % plan.sync_every == 0
        if joins:
            self._strategy.inject(self._rl_actor)
            self._counters["injections"] += 1
        generation.row |= {**result.metrics, "joined": float(joins)}
        generation.learns = False
        return self._go_on(generation)

    def ask_critic(self) -> Job | None:
        """Return the RL actor's gradient steps, once all have lived."""
        generation, plan = self._current(), self._plan
        if not generation.due:
            return None
        number, watermark = self._counters["generations"], self._replay.watermark
        seed = seeding.seeds(plan.seed, 1, "learner-job", number)[0]
        job = GradientJob(generation.due, watermark, seed)
        generation.due = 0
        task = TrainLearner(self._learner.publish(self._rl_actor), number, job)
        return Job.training(task, job)

    def ask(self, worker: int) -> Job | None:
        """Return the next episode, or the champion's evaluation, or None."""
        generation, plan = self._current(), self._plan
        if generation.waiting:
            return self._episode(generation, generation.waiting.pop(0))
        if generation.row is None or generation.learns or generation.champion_asked:
            return None
        generation.champion_asked = True
        number = self._counters["generations"]
        seed = seeding.seeds(plan.seed, 1, "champion-evaluations", number)[0]
        version = self._learner.publish(self.parameters)
        task = EvaluateMean(version, number, seed, plan.mean_evaluations)
        return Job(task, version, least_env_steps=plan.mean_evaluations)

    # generations

    @property
    def _episodes(self) -> int:
        """Return the number of episodes in a generation, the RL actor's included."""
        return self._plan.population_size * self._plan.episodes_per_member + 1

    @property
    def _rl_actor(self) -> np.ndarray:
        return self._learner.newest.tensors["actor"]

    def _begin(self) -> _Generation:
        candidates = self._strategy.ask(self._plan.population_size)
        return _Generation(candidates, list(range(self._episodes)))

    def _episode(self, generation: _Generation, episode: int) -> Job:
        plan = self._plan
        index = self._counters["generations"] * self._episodes + episode
        seed = seeding.seeds(plan.seed, 1, "individual-episode", index)[0]
        task: Live | Explore
        if episode == self._episodes - 1:
            task = Explore(self._learner.publish(self._rl_actor), index, seed, *plan.noise)
        else:
            member = generation.candidates[episode // plan.episodes_per_member]
            task = Live(self._learner.publish(member.vector), index, seed, None, False)
        return Job(task, task.version, least_env_steps=1)

    def _breed(self, generation: _Generation, lived: Sequence[Lived]) -> Metrics:
        """Tell the genetic algorithm a whole generation, by member."""
        plan, each = self._plan, self._plan.episodes_per_member
        env_steps = sum(one.length for one in lived)
        returns = [one.episode_return for one in lived]
        fitness = [
            sum(returns[member * each : member * each + each]) / each
            for member in range(plan.population_size)
        ]
        told = self._strategy.tell(
            [
                Individual(candidate.index, candidate.version, candidate.vector, value)
                for candidate, value in zip(generation.candidates, fitness, strict=True)
            ]
        )
        enough = self._replay.watermark >= plan.least_transitions
        if enough and self.env_steps_counted >= plan.warmup_steps:
            generation.due = plan.gradient_steps(env_steps)
            generation.learns = generation.due > 0
        return {
            **lived_summary(lived, fitness),
            "fitness_rl": returns[-1],
            "update_norm": told["update_norm"],
            "joined": 0.0,
        }

    def _go_on(self, generation: _Generation) -> Told:
        """End the generation if none of its jobs is left."""
        if generation.learns or self._plan.mean_evaluations:
            return Told({})
        return self._end(generation)

    def _end(self, generation: _Generation) -> Told:
        assert generation.row is not None, "a generation ends when all have lived"
        rows = [
            EpisodeRow(
                0,
                episode // self._plan.episodes_per_member,
                0,
                generation.lived[episode].episode_return,
                generation.lived[episode].length,
            )
            for episode in range(self._episodes)
        ]
        injections = {"injections": float(self._counters["injections"])}
        return self._reach({**generation.row, **injections}, rows)
