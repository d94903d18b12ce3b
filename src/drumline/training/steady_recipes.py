"""Parts of a steady-state method: over episodes with a replay, or over calls of an objective."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from drumline import seeding
from drumline.buffers.no_replay import NoReplay
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import Replay, ReplayShape
from drumline.envs.environment import EnvironmentSpec
from drumline.policies.spec import PolicySpec
from drumline.protocols import Population, Whereabouts, WorkerPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.event_order import VirtualCosts
from drumline.schedules.rehearsals import rehearse_task
from drumline.tasks import Event
from drumline.training.evaluations import evaluation_tasks
from drumline.training.rehearsal import rehearse_episode
from drumline.training.replay_memory import replay_memory
from drumline.training.run_request import RunConfig, RunRequest
from drumline.training.steady_run import SteadyRun
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.objective import Objective
from drumline.workers.objective_worker import ObjectiveSpec
from drumline.workers.refiner import Jobs, RefinerSpec


class ReplayedOrder(Protocol):
    """Fields of a config that choose the order of events."""

    @property
    def clock(self) -> str:
        """Order of events: virtual, or wall for the order of arrival."""
        ...

    @property
    def replay_events(self) -> str:
        """Path of the event log whose order is replayed; empty for none."""
        ...


class ReplayedStrategy(Protocol):
    """A strategy that a resume brings back by asks and tells."""

    replaying: Callable[[int, int], None]

    @property
    def replays_everything(self) -> bool:
        """Whether a resume repeats all asks and tells since the start of the run."""
        ...

    def sample(self, keeps_on: Callable[[], bool]) -> int:
        """Ask and tell a new one while `keeps_on`; returns the number of tells."""
        ...


@dataclass(frozen=True)
class SteadyRecipe:
    """Parts of a steady-state method over episodes; they follow from its config."""

    config: RunConfig
    environment: EnvironmentSpec
    policy: PolicySpec
    shape: ReplayShape
    jobs: Callable[[Mapping[str, np.ndarray]], Jobs]
    """Shared arrays → gradient steps over the replay in them, in a worker's process."""
    population: Callable[[QueuedReplay], Population]
    concurrency: int
    longest_episode: int
    """Most env steps of an episode: the replay keeps room for that many."""
    costs: VirtualCosts | None
    """None: the learned parameters do not depend on the order in which jobs end."""
    order: ReplayedOrder | None = None
    """Order of events; None: order of arrival."""
    replayed: ReplayedStrategy | None = None
    """The strategy, if a resume may ask and tell it again."""
    critics: Mapping[str, Any] | None = None
    """Description of the critics in policy files."""

    rehearsing_workers: ClassVar[int] = 1

    @property
    def searched(self) -> EnvironmentSpec:
        """Return what the population is evaluated on."""
        return self.environment

    def begun(self) -> tuple[SharedArrays, QueuedReplay, Population]:
        """Return the replay's memory, the replay, and the population before its first ask."""
        memory = replay_memory(self.shape)
        ring = Replay(self.shape, memory.arrays)
        replay = QueuedReplay(ring, self.longest_episode, memory.wrote)
        return memory, replay, self.population(replay)

    def individuals(self) -> RefinerSpec:
        """Return the factory of the workers of individuals."""
        return RefinerSpec(self.environment, self.policy, self.jobs)

    def evaluator(self) -> EvaluatorSpec:
        """Return the factory of the evaluations' workers."""
        return EvaluatorSpec(self.environment, self.policy, noise_seed=0)

    def rehearse_calls(self, pool: WorkerPool, policy: Mapping[str, np.ndarray]) -> None:
        """Do nothing: the first episode is repeated once it is there."""

    def rehearse_episode(self, event: Event, noted: Whereabouts) -> None:
        """Repeat the first individual's episode; ImpureEnvironment if its bits differ."""
        rehearse_episode(self.environment, self.policy.head, event.task, event.result, noted)

    def opened(self, request: RunRequest) -> SteadyRun:
        """Return the run that trains with these parts."""
        return SteadyRun(self, request)


@dataclass(frozen=True)
class ObjectiveRecipe:
    """Parts of a steady-state method over calls of an objective; they follow from its config."""

    config: RunConfig
    searched: Objective
    population: Callable[[], Population]
    concurrency: int
    costs: VirtualCosts
    order: ReplayedOrder
    replayed: ReplayedStrategy | None = None
    """The strategy, if a resume may ask and tell it again."""

    policy: ClassVar[None] = None
    critics: ClassVar[None] = None
    rehearsing_workers: ClassVar[int] = 2

    def begun(self) -> tuple[None, NoReplay, Population]:
        """Return no memory, no replay, and the population before its first ask."""
        return None, NoReplay(), self.population()

    def individuals(self) -> ObjectiveSpec:
        """Return the factory of the workers of individuals."""
        return ObjectiveSpec(self.searched, noise_seed=0)

    def evaluator(self) -> ObjectiveSpec:
        """Return the factory of the evaluations' workers."""
        return self.individuals()

    def rehearse_calls(self, pool: WorkerPool, policy: Mapping[str, np.ndarray]) -> None:
        """Call twice with the same parameters and seed, on two workers."""
        first, between = evaluation_tasks(self.config.seed, 0, 2)
        with seeding.kept_globals():  # an inline pool seeds this process
            rehearse_task(pool, policy, first, between, self.searched.function)

    def rehearse_episode(self, event: Event, noted: Whereabouts) -> None:
        """Do nothing: calls have been repeated before the first event."""

    def opened(self, request: RunRequest) -> SteadyRun:
        """Return the run that trains with these parts."""
        return SteadyRun(self, request)
