"""Interfaces between the rooms: strategies, learners, schedules, pools and workers.

A *strategy* (or learner) changes parameters. A *schedule* decides which process waits for which. A
*worker pool* runs tasks, in processes or inline, without knowing their meaning. A *worker* runs
them on the pool's far side.

    strategy.ask ─ tasks ─▶ pool ─▶ worker ─ results ─▶ schedule ─ folded by index ─▶ strategy.tell
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from drumline.tasks import Job, Snapshot, Told
from drumline.types import Metrics, ProcessActivity, Rollout, Span, State

Probe = Callable[[str], None]
"""Hook that every role calls at each step of its protocol; only tests use it, to kill the role."""


def no_probe(point: str) -> None:
    """Do nothing: the probe of every run outside of tests."""


class GenerationStrategy(Protocol):
    """Search over parameters by ask and tell. It maximises and knows no process, clock or file.

    A result carries all that `tell` needs, so results may come in any order.
    """

    def ask(self, count: int) -> Sequence[Any]:
        """Return the next `count` tasks of the current generation; changes no learned state.

        They are `Evaluate`, one for each member: the first call of a generation asks members 0 to
        `count` − 1, a second one those after them. `version` is the number of generations told so
        far, and `training` is True. `StrategyFailed` ends a run with other tasks.
        """
        ...

    def tell(self, results: Sequence[Any]) -> Metrics:
        """Update from the results of one generation, in any order; returns its metrics.

        `episode_return_mean` must be among them: the mean of the results' `episode_return`. Their
        names are columns of metrics.csv, and the same in every generation.
        """
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays that a worker needs to run a task of the current version."""
        ...

    def state(self) -> State:
        """Return a copy of all learned state, from which `load` continues with the same bits."""
        ...

    def load(self, state: State) -> None:
        """Load a state; raises `ValueError` naming an array that is missing or of another shape."""
        ...


class Learner(Protocol):
    """Gradient steps on the data of one interval; knows no process, clock or file."""

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Learn from one interval, whose actions came from the published arrays `behavior`."""
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays that acting with the newest version needs."""
        ...

    def state(self) -> State:
        """Return a copy of all learned state, so that `load` goes on with the same bits."""
        ...

    def load(self, state: State) -> None:
        """Take over a state; raises `ValueError` naming what is missing or of another shape."""
        ...


class Population(Protocol):
    """Learning side of a steady-state schedule, whose logical workers start and end jobs one by
    one.

    At every end of a job the schedule calls, in this order: `tell` (or `take_critic` for a critic
    job), `ask_critic` if the critic is idle, `ask` for every idle worker by number. All of it must
    follow from these calls alone: no time, no process, no arrival order.

    The run decides when it ends. A population that leaves it without a job before is an error.
    """

    in_generations: bool
    """Whether an update is a generation: `settled` leaves out the jobs of the next one."""

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training so far."""
        ...

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of the population's own evaluations so far."""
        ...

    @property
    def parameters(self) -> np.ndarray:
        """Return the actor `[P]` that the population stands for, such as a distribution's mean."""
        ...

    def env_steps(self, task: Any, result: Any) -> int:
        """Return a job's env steps, evaluation included: they set its virtual duration."""
        ...

    def tell(self, worker: int, task: Any, result: Any) -> Told:
        """Record a result; its transitions belong to the replay of every job asked from now on.

        They stay in the worker's memory until `fill` moves them.
        """
        ...

    def take_critic(self, task: Any, result: Any) -> Told:
        """Install the critic that a critic job has trained."""
        ...

    def ask_critic(self) -> Job | None:
        """Return the critic's next job; None: none is due."""
        ...

    def ask(self, worker: int) -> Job | None:
        """Return a worker's next job: its individual's second part, a new individual, or none."""
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the version that the latest job names; never changed afterwards."""
        ...

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return arrays of the shapes that every published version has."""
        ...

    def fill(self, oldest: int | None) -> int:
        """Move waiting transitions into the replay, in the order of `tell`, as far as the windows
        of all watermarks from `oldest` on allow (None: no job reads); returns the number that the
        replay has taken in all."""
        ...

    def row(self, metrics: Metrics) -> Metrics:
        """Return an update's columns, the same in every row, from the metrics of its `tell`."""
        ...

    def learned(self) -> Mapping[str, np.ndarray]:
        """Return the learned arrays that a fingerprint covers besides the parameters."""
        ...

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Return the part of the virtual queue that goes with `state()`."""
        ...

    def state(self) -> State:
        """Return all state that the queue does not hold, as of the latest settled event."""
        ...

    def load(self, state: State) -> None:
        """Take over a state; raises `ValueError` naming what is missing or of another shape."""
        ...


class Policy(Protocol):
    """A policy whose parameters are one flat float32 vector `[P]`."""

    parameter_count: int
    vector: np.ndarray
    """The parameters `[P]` in place: writing here sets them without a copy, with `loaded` after."""
    to_action: Callable[[np.ndarray, np.ndarray | None], Any]
    """(raw output, action noise or None) → action; may overwrite the output."""

    def load_vector(self, parameters: np.ndarray) -> None:
        """Set the parameters `[P]`; the caller may overwrite its array afterwards."""
        ...

    def loaded(self) -> None:
        """Compute what else follows from the parameters, after writing into `vector`."""
        ...

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the moments `[D]` that normalise the observations of `output`."""
        ...

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]` for one observation, valid until the next call.

        If any of its numbers is NaN, the first one is: loops look at no other.
        """
        ...

    def act(self, observation: np.ndarray) -> Any:
        """Return the action for one observation: a pure function of it and the parameters."""
        ...


class Completed(NamedTuple):
    """One finished task. `withdrawn`: it was called back, and its result may be partial."""

    task: Any
    result: Any
    withdrawn: bool
    began: float
    """Begin and end of the work on its lease, in seconds of the machine-wide monotonic clock."""
    ended: float


class WorkerPool(Protocol):
    """Runs opaque tasks; every task that is not withdrawn comes back exactly once.

    Results come in arrival order. A worker's exception reaches the caller of `completed` as
    `WorkerError`. A worker that dies or hangs is replaced and its unfinished tasks are issued
    again; a task that kills its worker three times raises `TaskKilledWorkers`.
    """

    size: int

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks behind those already submitted."""
        ...

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return the tasks finished since the last call; waits for one, at most `timeout` seconds.

        It also returns, without a result, when a task has reached the amount of `wake_at`.
        """
        ...

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the tasks in flight that have begun, each with its greatest progress.

        The unit is that of `WorkerContext.progress`; a task that is issued again keeps its mark.
        """
        ...

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this task in flight has progressed by `amount`.

        A later call for the same task replaces the earlier one.
        """
        ...

    def withdraw(self) -> None:
        """Call back all tasks submitted so far: the queued never run, running ones may stop."""
        ...

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make the arrays of `version` visible to every task that is submitted from now on.

        A pool keeps a fixed number of versions (three, unless it is made for more): the oldest that
        is not retained is dropped.
        """
        ...

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, even if many are published after them."""
        ...

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked in this pool, dead ones included."""
        ...

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work (one per lease), oldest first."""
        ...

    def close(self) -> None:
        """End every process and free all shared memory; may be called twice."""
        ...


class WorkerContext(Protocol):
    """A pool's services to a worker: shared arrays to read, and a progress counter."""

    shared: Mapping[str, np.ndarray]
    probe: Probe

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place: copy what must outlast the task's start."""
        ...

    def progress(self, amount: int) -> None:
        """Add to the progress of the running task; the pool replaces a worker without progress."""
        ...

    def building(self) -> AbstractContextManager[None]:
        """Return a context in which a worker builds more of itself and need not progress."""
        ...

    def withdrawn(self) -> bool:
        """Return whether the running task was called back; its result will not be used."""
        ...

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the worker ends, latest first; a killed worker calls none."""
        ...


Worker = Callable[[Any], Any]
"""Runs one task and returns its result; a pure function of the task and the published arrays."""


@runtime_checkable
class StackingWorker(Protocol):
    """A worker that can run several tasks side by side, with the results of each alone."""

    at_once: int

    def __call__(self, task: Any) -> Any:
        """Run one task."""
        ...

    def leading(self, tasks: Sequence[Any]) -> int:
        """Return how many of the first tasks can run side by side."""
        ...

    def together(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """Return their results in order, None for a task that was withdrawn before it began.

        No result is bytes, and none has an array that is used again. An exception is that of any of
        them: run alone, each shows its own.
        """
        ...


WorkerFactory = Callable[[WorkerContext], Worker]
"""Builds a worker inside its process; must pickle by reference (no callable of `__main__`)."""


@dataclass(frozen=True)
class PublishedLayout:
    """Shape and dtype of each array that a pool publishes; fixed for the life of the pool."""

    arrays: Mapping[str, tuple[tuple[int, ...], str]]

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray]) -> "PublishedLayout":
        """Return the layout of `arrays`."""
        return PublishedLayout({name: (a.shape, a.dtype.str) for name, a in arrays.items()})


class Whereabouts(Protocol):
    """Note of the environment that the driver itself steps, for when it ends without a word."""

    step: Any
    """`step[0]`: a number that grows with every step; one store a step."""
    entered: int
    """Number of calls of `enter`."""

    def enter(self, where: str) -> None:
        """Note the environment that is stepped from here on, before its first step."""
        ...

    def leave(self) -> None:
        """Note that no environment is stepped from here on."""
        ...

    def again(self) -> None:
        """Note that the environment of the latest `enter` is stepped again."""
        ...

    def alive(self) -> None:
        """Count a sign of life that is no step, such as a reset."""
        ...

    def building(self) -> AbstractContextManager[None]:
        """Give the calls within the time of a creation: a first reset or step may compile."""
        ...


class Unwatched:
    """Whereabouts that are not noted."""

    def __init__(self):
        self.step: Any = [0]
        self.entered = 0

    def enter(self, where: str) -> None:
        """Do nothing."""

    def alive(self) -> None:
        """Do nothing."""

    def building(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def leave(self) -> None:
        """Do nothing."""

    def again(self) -> None:
        """Do nothing."""
