"""ERL's generations as a population (Khadka & Tumer 2018): a genetic algorithm and a DDPG actor.

    N members and the RL actor live ┃ replay, breed ─ the RL actor learns ─ (joins) ┃ N members …

Whoever lives does so anywhere; episodes enter the replay by member, the RL actor's last. Nothing
depends on the order in which jobs end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drumline import seeding
from drumline.algorithms.ga import GA
from drumline.algorithms.optimizers import counter
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import one_episode
from drumline.recipes.barrier import Barrier, lived_summary, merged
from drumline.recipes.published_learner import PublishedLearner
from drumline.types import (
    Candidate,
    EpisodeRow,
    EvaluateMean,
    Explore,
    GradientJob,
    Individual,
    Job,
    LearnerTrained,
    Live,
    Lived,
    MeanEvaluated,
    Metrics,
    Snapshot,
    State,
    TrainLearner,
)
from drumline.workers.refiner import LEARNER

_COUNTERS = ("env_steps_counted", "env_steps_beside", "generations", "injections")
_COLUMNS = (
    *("fitness_mean", "fitness_std", "fitness_min", "fitness_max", "fitness_rl", "mean_fitness"),
    *("episode_length_mean", "update_norm", "joined", "injections"),
    *("gradient_steps", "critic_loss", "policy_value"),
)
"""Columns of metrics.csv that every generation has, empty where there was nothing to say."""


@dataclass(frozen=True)
class ERLPlan:
    """What is fixed for a run."""

    seed: int
    population_size: int
    episodes_per_member: int
    sync_every: int
    """Generations from one joining of the RL actor to the next."""
    warmup_steps: int
    least_transitions: int
    """Nothing is learned from fewer."""
    gradient_steps: Callable[[int], int]
    """Env steps of a generation → gradient steps after it."""
    mean_evaluations: int
    noise: tuple[float, float, float]
    """θ, σ and scale of the RL actor's exploration."""


@dataclass
class _Generation:
    candidates: list[Candidate]
    waiting: list[int]
    """Episodes that nobody has begun: those of member m are m k … m k + k − 1, the RL actor's is
    the last."""
    lived: dict[int, Lived] = field(default_factory=dict)
    row: Metrics | None = None
    """Known once all have lived."""
    due: int = 0
    """Gradient steps that nobody has begun."""
    learns: bool = False
    champion_asked: bool = False


class ERLPopulation:
    """A `Population` whose state stands still between two generations."""

    in_generations = True

    def __init__(self, plan: ERLPlan, strategy: GA, learner: State, replay: QueuedReplay):
        self.unsaved: list[tuple[str, bytes]] = []
        """What was appended since somebody took it: (segment, bytes to append to it)."""
        self._plan = plan
        self._strategy = strategy
        self._learner = PublishedLearner(learner, saved_as=LEARNER, published_as=LEARNER)
        self._replay = replay
        self._counters: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
        self._generation: _Generation | None = None
        self._barrier = Barrier()
        self._barrier.stands = self._now()

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training."""
        return self._counters["env_steps_counted"]

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of the champion's evaluations."""
        return self._counters["env_steps_beside"]

    @property
    def parameters(self) -> np.ndarray:
        """Return the champion."""
        return self._strategy.parameters

    def finished(self) -> list[EpisodeRow]:
        """Return, once, the episodes of the generation that the latest event has ended."""
        return self._barrier.finished()

    def metrics(self, told: Metrics) -> Metrics:
        """Return a generation's row."""
        return {name: told.get(name, float("nan")) for name in _COLUMNS}

    def learned(self) -> dict[str, np.ndarray]:
        """Return the RL actor and its critic."""
        return {"rl_actor": self._rl_actor, "critics": self._learner.critics}

    def settled(self, snapshot: Snapshot) -> Snapshot | None:
        """Return, once a generation, what goes on from one to the next: nothing."""
        return self._barrier.settled(snapshot)

    # the schedule's calls

    def env_steps(self, task: Any, result: Any) -> int:
        """Return how many env steps a job took."""
        if isinstance(result, Lived):
            return result.length
        return result.env_steps if isinstance(result, MeanEvaluated) else 0

    def append(self, worker: int, task: Any, result: Any) -> None:
        """Episodes enter the replay when all have lived, by member."""

    def tell(self, worker: int, task: Any, result: Any) -> Metrics:
        """Wait for the last episode; then breed."""
        generation = self._current()
        if isinstance(result, MeanEvaluated):
            self._counters["env_steps_beside"] += result.env_steps
            assert generation.row is not None, "the champion is known when all have lived"
            generation.row["mean_fitness"] = sum(result.returns) / len(result.returns)
            return self._end(generation)
        generation.lived[task.index % self._episodes] = result
        if len(generation.lived) < self._episodes:
            return {}
        generation.row = self._breed(generation)
        return self._go_on(generation)

    def take_critic(self, task: Any, result: LearnerTrained) -> Metrics:
        """Take over the RL actor and its critic; it joins the population when it is time."""
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
        return Job(
            task,
            task.version,
            gradient_steps=job.steps,
            transitions=watermark,
            watermark=watermark,
        )

    def ask(self, worker: int) -> Job | None:
        """Return the next episode, or the champion's evaluation, or nothing."""
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

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the latest job."""
        return self._learner.latest

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that every version has."""
        return self._learner.arrays(self.parameters)

    def fill(self, oldest: int | None) -> int:
        """Move what waits into the ring, as far as the windows in use allow."""
        return self._replay.fill(oldest)

    # state

    def state(self) -> State:
        """Return the state after the latest whole generation."""
        return self._barrier.stands

    def load(self, state: State) -> None:
        """Take over a state."""
        self._strategy.load(state)
        self._learner.load(state)
        self._counters = {name: int(counter(state, name)) for name in _COUNTERS}
        self._generation = None
        self._barrier.stands = self._now()

    def _now(self) -> State:
        return merged([self._strategy.state(), self._learner.state()], self._counters)

    # generations

    @property
    def _episodes(self) -> int:
        """Return how many episodes a generation has, the RL actor's included."""
        return self._plan.population_size * self._plan.episodes_per_member + 1

    @property
    def _rl_actor(self) -> np.ndarray:
        return self._learner.newest.tensors["actor"]

    def _current(self) -> _Generation:
        if self._generation is None:
            candidates = self._strategy.ask(self._plan.population_size)
            self._generation = _Generation(candidates, list(range(self._episodes)))
        return self._generation

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

    def _breed(self, generation: _Generation) -> Metrics:
        """Put a whole generation into the replay and tell it, by member."""
        plan, each = self._plan, self._plan.episodes_per_member
        lived = [generation.lived[episode] for episode in range(self._episodes)]
        for one in lived:
            self.unsaved += self._replay.append(
                one_episode(one.observations, one.actions, one.rewards, one.kind)
            )
        env_steps = sum(one.length for one in lived)
        self._counters["env_steps_counted"] += env_steps
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

    def _go_on(self, generation: _Generation) -> Metrics:
        """End the generation if nothing is left of it."""
        if generation.learns or self._plan.mean_evaluations:
            return {}
        return self._end(generation)

    def _end(self, generation: _Generation) -> Metrics:
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
        self._counters["generations"] += 1
        self._generation = None
        self._barrier.reach(self._now(), rows)
        return {**generation.row, "injections": float(self._counters["injections"])}
