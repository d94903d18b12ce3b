"""HTS-RL's own crew, exchange and schedule over environments that only sleep.

An environment costs next to nothing and is made slow by a step-time law, so two cores carry
hundreds of them, and the waits between roles are measured. The learner sleeps for a stated time.
"""

import dataclasses
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import psutil

from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.journal import Journal
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.timing import StepTimeLaw, StepTimes
from drumline.policies.actions import head_for
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.protocols import PublishedLayout
from drumline.runtime.crews.crew_plan import CrewPlan
from drumline.runtime.crews.exchange import Ownership, even_chunks
from drumline.runtime.crews.process_crew import ProcessCrew
from drumline.schedules.overlapped import Interval, RotationPlan, overlapped
from drumline.types import Metrics, Rollout, State
from drumline.workers.actor import ActorSpec
from drumline.workers.executor import ExecutorSpec, ExecutorStart

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where children find `sleeping:still`

Barrier = Literal["sliding", "hard", "none", "lag 0"]


class Still(gymnasium.Env[np.ndarray, int]):
    """Nothing happens, at once."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._seen = np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._seen, {}

    def step(self, action: int) -> Any:
        return self._seen, 0.0, False, False, {}


def still() -> Still:
    return Still()


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    `none`: environments never wait for a version, nor it for them; `lag 0`: nothing overlaps.
    """

    environments: int
    alpha: int
    law: StepTimeLaw
    barrier: Barrier
    executors: int = 1
    actors: int = 0
    update_seconds: float = 0.0
    seed: int = 0


class Measured(NamedTuple):
    """Counts of a cell between two moments at which all environments had come equally far."""

    seconds: float
    env_steps: int
    first: int
    last: int
    """The intervals whose ends those moments are; for `none` the steps of all until then."""
    executor_seconds: float
    """CPU time of all executors; actors and driver (its learner too) likewise."""
    actor_seconds: float
    driver_seconds: float

    @property
    def env_steps_per_second(self) -> float:
        return self.env_steps / self.seconds


class Idle:
    """A `Learner` that takes its time and learns nothing."""

    def __init__(self, arrays: Mapping[str, np.ndarray], seconds: float):
        self._arrays = arrays
        self._seconds = seconds

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        if self._seconds:
            time.sleep(self._seconds)
        return {}

    def published(self) -> Mapping[str, np.ndarray]:
        return self._arrays

    def state(self) -> State:
        return State()

    def load(self, state: State) -> None:
        pass


def step_seconds(cell: Cell, steps: int) -> np.ndarray:
    """Return the very times `[steps, environments]` that the cell's environments will take."""
    times = StepTimes(cell.law, cell.seed, 0, cell.environments)
    return np.stack([times.next() for _ in range(steps)])


def measure(cell: Cell, skip: int, intervals: int, seconds: float) -> Measured:
    """Run `intervals` after the first `skip`; with barrier `none` for `seconds` after a tenth."""
    if cell.barrier == "none":
        # One interval that never ends: everything is released, no version is waited for.
        steps = 4096 + int(40.0 * seconds / _shortest_mean(cell))
        return _free(dataclasses.replace(cell, alpha=steps), seconds)
    return _synchronised(cell, skip, intervals)


def _synchronised(cell: Cell, skip: int, intervals: int) -> Measured:
    crew, shape, arrays = crew_of(cell)
    learner = Idle(arrays, cell.update_seconds)
    lag: Any = int(cell.barrier != "lag 0")
    barrier: Any = cell.barrier if lag else "sliding"
    plan = RotationPlan(cell.alpha, skip + intervals + 1, lag, barrier)
    try:
        crew.exchange.release(1 if barrier == "sliding" and lag else 0)
        crew.start()
        storage = RolloutStorage(shape, crew.arrays)
        ends: list[Interval] = []
        spent: list[_Spent] = []
        for interval in overlapped(learner, crew, storage, plan):
            ends.append(interval)
            if interval.update - 1 in (skip, skip + intervals):
                spent.append(_Spent.by(crew))
        began, ended = ends[skip].update_began, ends[skip + intervals].update_began
        steps = intervals * cell.alpha * cell.environments
        return Measured(ended - began, steps, skip, skip + intervals, *spent[1].since(spent[0]))
    finally:
        crew.close()


def _free(cell: Cell, seconds: float) -> Measured:
    crew, _, _ = crew_of(cell)
    try:
        crew.start()
        finished = crew.exchange.finished
        crew.wait(lambda: bool((finished > 0).all()))
        crew.wait(lambda: False, 0.1 * seconds)
        first, began, spent = int(finished.sum()), time.perf_counter(), _Spent.by(crew)
        crew.wait(lambda: False, seconds)
        last, ended, after = int(finished.sum()), time.perf_counter(), _Spent.by(crew)
        if finished.max() >= cell.alpha:
            raise RuntimeError(f"{cell} had only {cell.alpha} steps to make, and made them")
        return Measured(ended - began, last - first, first, last, *after.since(spent))
    finally:
        crew.close()


def _shortest_mean(cell: Cell) -> float:
    return float(step_seconds(cell, 512).mean(axis=0).min())


class _Spent(NamedTuple):
    executors: float
    actors: float
    driver: float

    @staticmethod
    def by(crew: ProcessCrew) -> "_Spent":
        def used(role: str) -> float:
            rows = [row for row in crew.activity() if row.role == role]
            times = [psutil.Process(row.pid).cpu_times() for row in rows]
            return sum(one.user + one.system for one in times)

        return _Spent(used("executor"), used("actor"), time.process_time())

    def since(self, earlier: "_Spent") -> tuple[float, float, float]:
        return (
            self.executors - earlier.executors,
            self.actors - earlier.actors,
            self.driver - earlier.driver,
        )


def crew_of(
    cell: Cell, *, newest: bool = False
) -> tuple[ProcessCrew, RolloutShape, Mapping[str, np.ndarray]]:
    """Return a crew whose roles are not started, and what its memory and versions are.

    `newest`: executors act with the newest version, and each environment is released on its own.
    """
    count = cell.environments
    lanes = LanesSpec(EnvironmentSpec("sleeping:still"), cell.seed, 0, count, cell.law)
    space, head = Still.observation_space, head_for(Still.action_space)
    network = NetworkSpec(space.shape, space.dtype.str, head, hidden=(4,))
    shape = RolloutShape(
        cell.alpha,
        count,
        space.shape,
        space.dtype.str,
        head.action_shape,
        head.action_dtype,
        head.noise_size,
        truncations=1,
    )
    inference = InferenceSpec(network)
    bounds = even_chunks(count, cell.executors)
    served = even_chunks(count, cell.actors) if cell.actors else (0,)
    arrays = {"parameters": initial_parameters(network, cell.seed)}
    journal = Journal(count, cell.alpha, renewed=False, renew_intervals=0)

    def start_of(role: str, index: int) -> ExecutorStart | None:
        if role != "executor":
            return None
        read = RolloutStorage(shape, crew.arrays).read
        return ExecutorStart(
            [journal.history(e, 0, read) for e in range(*bounds[index : index + 2])]
        )

    executor = ExecutorSpec(
        lanes, bounds, shape, head, cell.seed, None if cell.actors else inference, newest=newest
    )
    plan = CrewPlan(
        ownership=Ownership(bounds, served),
        executor=executor,
        actor=ActorSpec(served, shape, head, inference) if cell.actors else None,
        storage=shape.layout(),
        published=PublishedLayout.of(arrays),
        start_of=start_of,
        place_of=lambda role, index: f"{role} {index} of {cell}",
    )
    crew = ProcessCrew(plan)
    for version in range(1 + (cell.barrier != "lag 0")):
        crew.publish(version, arrays)
    return crew, shape, arrays
