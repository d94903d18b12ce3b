"""Populations that live in generations: jobs end in any order and count at the barrier."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import one_episode
from drumline.populations.published_learner import PublishedLearner
from drumline.tasks import Job, Lived, MeanEvaluated, Snapshot, Told
from drumline.types import EpisodeRow, Metrics, State

G = TypeVar("G")
S = TypeVar("S", bound=CandidateStrategy)


class BarrierPopulation(ABC, Generic[S, G]):
    """A `Population` with a strategy S; its state changes only between two generations G."""

    in_generations = True

    def __init__(
        self,
        strategy: S,
        learner: PublishedLearner,
        replay: QueuedReplay,
        *,
        counters: Sequence[str],
        columns: Sequence[str],
    ):
        """`counters` besides env steps and generations; `columns` of every generation's row."""
        self._strategy = strategy
        self._learner = learner
        self._replay = replay
        self._columns = columns
        names = ("env_steps_counted", "env_steps_beside", "generations", *counters)
        self._counters: dict[str, int] = dict.fromkeys(names, 0)
        self._generation: G | None = None
        self._stands = self._now()
        """State after the latest whole generation."""

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training, warm-up included."""
        return self._counters["env_steps_counted"]

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of the evaluations of `parameters`."""
        return self._counters["env_steps_beside"]

    @property
    def parameters(self) -> np.ndarray:
        """Return the parameters `[P]` that stand for the strategy: a mean or a champion."""
        return self._strategy.published()["parameters"]

    def row(self, metrics: Metrics) -> Metrics:
        """Return a generation's columns, NaN where it has no value."""
        return {name: metrics.get(name, float("nan")) for name in self._columns}

    @abstractmethod
    def learned(self) -> dict[str, np.ndarray]:
        """Return the arrays that gradient steps have learned."""

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Return the jobs that were in flight when the generation ended.

        Jobs of the next one are left out: a run that goes on from there asks for them again.
        """
        before = int(self._stands.counter("jobs"))
        started = tuple(entry for entry in snapshot.started if entry.job.version <= before)
        versions = {entry.job.version: snapshot.versions[entry.job.version] for entry in started}
        return Snapshot(snapshot.events, snapshot.now, started, versions)

    # the schedule's calls

    def env_steps(self, task: Any, result: Any) -> int:
        """Return the env steps that a job took."""
        if isinstance(result, Lived):
            return result.length
        return result.env_steps if isinstance(result, MeanEvaluated) else 0

    @abstractmethod
    def tell(self, worker: int, task: Any, result: Any) -> Told:
        """Record an episode or an evaluation; episodes enter the replay at the barrier."""

    @abstractmethod
    def take_critic(self, task: Any, result: Any) -> Told:
        """Install the learner that a job has trained."""

    @abstractmethod
    def ask_critic(self) -> Job | None:
        """Return a job of gradient steps, if some are due."""

    @abstractmethod
    def ask(self, worker: int) -> Job | None:
        """Return a job that need not wait for others, or None."""

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the latest job."""
        return self._learner.latest

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that every version has."""
        return self._learner.arrays(self.parameters)

    def fill(self, oldest: int | None) -> int:
        """Move waiting transitions into the ring, as far as the windows in use allow."""
        return self._replay.fill(oldest)

    # state

    def state(self) -> State:
        """Return the state after the latest whole generation."""
        return self._stands

    def load(self, state: State) -> None:
        """Take over a state."""
        self._strategy.load(state)
        self._learner.load(state)
        self._counters = {name: int(state.counter(name)) for name in self._counters}
        self._generation = None
        self._stands = self._now()

    def _now(self) -> State:
        return State.merged(
            self._strategy.state(), self._learner.state(), State({}, dict(self._counters))
        )

    # generations

    @abstractmethod
    def _begin(self) -> G:
        """Return the next generation."""

    def _current(self) -> G:
        if self._generation is None:
            self._generation = self._begin()
        return self._generation

    def _remember(self, lived: Sequence[Lived]) -> tuple[tuple[str, bytes], ...]:
        """Put episodes into the replay, in their order, and count their env steps."""
        self._counters["env_steps_counted"] += sum(one.length for one in lived)
        return tuple(
            part
            for one in lived
            for part in self._replay.append(
                one_episode(one.observations, one.actions, one.rewards, one.kind)
            )
        )

    def _reach(self, metrics: Metrics, rows: Sequence[EpisodeRow]) -> Told:
        """End the generation: the state after it replaces the one before."""
        self._counters["generations"] += 1
        self._generation = None
        self._stands = self._now()
        return Told(metrics, tuple(rows), settled=True)


def lived_summary(lived: Sequence[Lived], fitness: Sequence[float]) -> Metrics:
    """Return statistics of a generation's fitness, and its mean episode length in env steps."""
    mean = sum(fitness) / len(fitness)
    return {
        "fitness_mean": mean,
        "fitness_std": (sum((one - mean) ** 2 for one in fitness) / len(fitness)) ** 0.5,
        "fitness_min": min(fitness),
        "fitness_max": max(fitness),
        "episode_length_mean": sum(one.length for one in lived) / len(lived),
    }
