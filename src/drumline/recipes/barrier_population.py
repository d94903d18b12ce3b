"""What the populations that live in generations share: jobs end anyhow and count at the barrier."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.algorithms.optimizers import counter
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import one_episode
from drumline.recipes.barrier import Barrier, merged
from drumline.recipes.published_learner import PublishedLearner
from drumline.types import EpisodeRow, Job, Lived, MeanEvaluated, Metrics, Snapshot, State

G = TypeVar("G")
S = TypeVar("S", bound=CandidateStrategy)


class BarrierPopulation(ABC, Generic[S, G]):
    """A `Population` with a strategy S whose state stands still between two generations G."""

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
        self.unsaved: list[tuple[str, bytes]] = []
        """What was appended since somebody took it: (segment, bytes to append to it)."""
        self._strategy = strategy
        self._learner = learner
        self._replay = replay
        self._columns = columns
        names = ("env_steps_counted", "env_steps_beside", "generations", *counters)
        self._counters: dict[str, int] = dict.fromkeys(names, 0)
        self._generation: G | None = None
        self._barrier = Barrier()
        self._barrier.stands = self._now()

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training, warm-up included."""
        return self._counters["env_steps_counted"]

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of evaluations of what the strategy stands for."""
        return self._counters["env_steps_beside"]

    @property
    def parameters(self) -> np.ndarray:
        """Return what the strategy stands for: a distribution's mean, a population's champion."""
        return self._strategy.published()["parameters"]

    def finished(self) -> list[EpisodeRow]:
        """Return, once, the episodes of the generation that the latest event has ended."""
        return self._barrier.finished()

    def metrics(self, told: Metrics) -> Metrics:
        """Return a generation's row, empty where there was nothing to say."""
        return {name: told.get(name, float("nan")) for name in self._columns}

    @abstractmethod
    def learned(self) -> dict[str, np.ndarray]:
        """Return what gradients taught."""

    def settled(self, snapshot: Snapshot) -> Snapshot | None:
        """Return, once a generation, what goes on from one to the next."""
        return self._barrier.settled(snapshot)

    # the schedule's calls

    def env_steps(self, task: Any, result: Any) -> int:
        """Return how many env steps a job took."""
        if isinstance(result, Lived):
            return result.length
        return result.env_steps if isinstance(result, MeanEvaluated) else 0

    def append(self, worker: int, task: Any, result: Any) -> None:
        """Episodes enter the replay at the barrier, by member."""

    @abstractmethod
    def tell(self, worker: int, task: Any, result: Any) -> Metrics:
        """Take an episode or an evaluation in."""

    @abstractmethod
    def take_critic(self, task: Any, result: Any) -> Metrics:
        """Take over what learned by gradient steps."""

    @abstractmethod
    def ask_critic(self) -> Job | None:
        """Return gradient steps, if some are due."""

    @abstractmethod
    def ask(self, worker: int) -> Job | None:
        """Return what need not wait, or nothing."""

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
        self._counters = {name: int(counter(state, name)) for name in self._counters}
        self._generation = None
        self._barrier.stands = self._now()

    def _now(self) -> State:
        return merged([self._strategy.state(), self._learner.state()], self._counters)

    # generations

    @abstractmethod
    def _begin(self) -> G:
        """Return the next generation."""

    def _current(self) -> G:
        if self._generation is None:
            self._generation = self._begin()
        return self._generation

    def _remember(self, lived: Sequence[Lived]) -> int:
        """Put episodes into the replay, in their order; return their env steps."""
        for one in lived:
            self.unsaved += self._replay.append(
                one_episode(one.observations, one.actions, one.rewards, one.kind)
            )
        env_steps = sum(one.length for one in lived)
        self._counters["env_steps_counted"] += env_steps
        return env_steps

    def _reach(self, rows: Sequence[EpisodeRow]) -> None:
        """The generation has ended."""
        self._counters["generations"] += 1
        self._generation = None
        self._barrier.reach(self._now(), rows)
