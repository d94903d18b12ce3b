"""The page everyone reads first: who talks to whom, and in which words.

A *strategy* (or learner) changes parameters. A *schedule* decides who waits for whom. A *worker
pool* runs tasks somewhere and does not know what they mean. A *worker* is the far side of a pool.

    strategy.ask ─ tasks ─▶ pool ─▶ worker ─ results ─▶ schedule ─ folded by index ─▶ strategy.tell
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from drumline.types import Job, Metrics, ProcessActivity, Rollout, Span, State

Probe = Callable[[str], None]
"""Called by every role at each step of its protocol; a no-op outside tests, which kill there."""


class Strategy(Protocol):
    """Search over parameters by ask and tell; maximises; knows no process, clock or file.

    What `tell` needs travels with the result, so results may come in any order.
    """

    def ask(self, count: int) -> Sequence[Any]:
        """Return the next `count` tasks of the current generation; changes no learned state."""
        ...

    def tell(self, results: Sequence[Any]) -> Metrics:
        """Update from the results of one generation, whatever their order."""
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays that a worker needs to run a task of the current version."""
        ...

    def state(self) -> State:
        """Return a copy of all learned state, so that `load` goes on with the same bits."""
        ...

    def load(self, state: State) -> None:
        """Take over a state; raises `ValueError` naming what is missing or of another shape."""
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
    """What learns under a steady-state schedule: logical workers start and end jobs one by one.

    At every end of a job the schedule calls, in this order: `append`, `tell` (or `take_critic`
    alone for a critic job), `ask_critic` if the critic is idle, `ask` for every idle worker by
    number. All of it must follow from these calls alone: no time, no process, no arrival order.
    """

    def env_steps(self, task: Any, result: Any) -> int:
        """Return how many env steps a job took, evaluation included: its virtual duration."""
        ...

    def append(self, worker: int, task: Any, result: Any) -> None:
        """Make a result's transitions part of the replay of every job asked for from now on.

        They stay where the worker left them until `fill` moves them.
        """
        ...

    def tell(self, worker: int, task: Any, result: Any) -> Metrics:
        """Learn from the end of an individual, or note the end of its first part."""
        ...

    def take_critic(self, task: Any, result: Any) -> Metrics:
        """Take over the critic that a critic job has made."""
        ...

    def ask_critic(self) -> Job | None:
        """Return the critic's next job, if one is due."""
        ...

    def ask(self, worker: int) -> Job | None:
        """Return a worker's next job: its individual's second part, a new individual, or none."""
        ...

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays of the version that the latest job names; never changed afterwards."""
        ...

    def fill(self, oldest: int | None) -> int:
        """Move waiting transitions into the replay, in the order of `append`, as far as the
        windows of all watermarks from `oldest` on allow (None: nobody reads); returns how many
        it has taken in all.
        """
        ...


class Policy(Protocol):
    """A policy whose parameters are one flat float32 vector `[P]`."""

    parameter_count: int
    vector: np.ndarray
    """The parameters `[P]` in place: writing here sets them without a copy."""
    to_action: Callable[[np.ndarray, np.ndarray | None], Any]
    """(raw output, action noise or None) → action; may overwrite the output."""

    def load_vector(self, parameters: np.ndarray) -> None:
        """Take the parameters `[P]`; the caller may overwrite its array afterwards."""
        ...

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Take the observation moments `[D]` that normalise what `output` sees."""
        ...

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]` for one observation, valid until the next call."""
        ...

    def act(self, observation: np.ndarray) -> Any:
        """Return the action for one observation: a pure function of it and the parameters."""
        ...


class Completed(NamedTuple):
    """One finished task; `withdrawn` when it was called back: its result may be partial."""

    task: Any
    result: Any
    withdrawn: bool
    began: float
    """When the work on its lease began and ended, on the machine-wide monotonic clock."""
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
        """Return what has finished since the last call; waits for at least one (or the timeout).

        Returns without a result, too, when a task has come as far as `wake_at` said.
        """
        ...

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the tasks in flight that have begun, each with the furthest that it has come.

        In the units of `WorkerContext.progress`; a task that is issued again keeps its mark.
        """
        ...

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this very task, in flight, has progressed by `amount`.

        A later call for the same task takes the place of the earlier one.
        """
        ...

    def withdraw(self) -> None:
        """Call back all tasks submitted so far: the queued never run, running ones may stop."""
        ...

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make the arrays of `version` visible to every task that is submitted from now on.

        A pool keeps a fixed number of versions (three unless it is made for more): the oldest
        that is not retained goes.
        """
        ...

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever is published after them."""
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
    """What a pool hands to a worker: shared arrays to read, and how to say that it is alive."""

    shared: Mapping[str, np.ndarray]
    probe: Probe

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place: copy what must outlast the task's start."""
        ...

    def progress(self, amount: int) -> None:
        """Add to the progress of the running task; a worker that stands still is taken for hung."""
        ...

    def building(self) -> AbstractContextManager[None]:
        """Return what a worker builds more of itself in: it may stand still as at its creation."""
        ...

    def withdrawn(self) -> bool:
        """Return whether the running task was called back; its result will not be used."""
        ...

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the worker ends, latest first; a killed one calls nothing."""
        ...


Worker = Callable[[Any], Any]
"""Runs one task and returns its result; a pure function of the task and the published arrays."""

WorkerFactory = Callable[[WorkerContext], Worker]
"""Builds a worker inside its process; must pickle by reference (no callable of `__main__`)."""


class Exchange(Protocol):
    """Words per environment and a doorbell per role; moves indices and never knows their meaning.

    A *step* here is a step of one environment, counted from the start of the run.
    """

    state: np.ndarray
    version: np.ndarray
    finished: np.ndarray

    @property
    def released(self) -> int:
        """The newest interval that every environment may begin."""
        ...

    def may_begin(self, environments: np.ndarray, interval: int) -> np.ndarray:
        """Return for each of these environments whether `interval` is released."""
        ...

    def request(self, environments: np.ndarray, versions: np.ndarray) -> None:
        """Ask the actors of these environments (ascending) to serve them with these versions."""
        ...

    def serve(self, environments: np.ndarray) -> None:
        """Say that the requests of these environments (ascending) are answered."""
        ...

    def finish(self, environments: "np.ndarray | slice", steps: "np.ndarray | int") -> None:
        """Say how many steps of these environments are stored."""
        ...

    def tell_driver(self) -> None:
        """Wake the driver: an interval of some environments is full."""
        ...


class RoleContext(Protocol):
    """What a crew hands to a long-lived role."""

    index: int
    arrays: Mapping[str, np.ndarray]
    """The memory that all roles of a run share."""
    exchange: Exchange
    start: Any
    """Where this role takes up its work: what the driver's `start_of(role, index)` returned."""
    probe: Probe

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place; the latest three are kept."""
        ...

    def newest(self) -> int:
        """Return the newest published version."""
        ...

    def copy_of_newest(self) -> tuple[int, Mapping[str, np.ndarray]]:
        """Return the newest version and copies of its arrays, whole even if it is replaced."""
        ...

    def progress(self, amount: int) -> None:
        """Add to the progress counter; a role that is busy while it stands still is hung."""
        ...

    def on_leave(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the role ends, latest first; a killed one calls nothing."""
        ...


class Role(Protocol):
    """One long-lived part of a run, such as an executor or an actor."""

    def advance(self) -> bool:
        """Do what can be done without waiting; returns whether anything was done."""
        ...

    def due_seconds(self) -> float | None:
        """Return after how long this role can go on by itself; None if only a bell can help."""
        ...


RoleFactory = Callable[[RoleContext], Role]
"""Builds a role inside its process; must pickle by reference (no callable of `__main__`)."""


class Crew(Protocol):
    """The long-lived roles of a run. One that dies is replaced and told where to take up its work.

    A role's exception reaches the caller of `wait` as `WorkerError`; a role that dies or hangs
    three times at the same place raises `RoleKilled`.
    """

    exchange: Any
    """The driver's side of the exchange."""

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make `version` visible to every role; the latest three are kept."""
        ...

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, in place."""
        ...

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Return True once `until()` holds, or False after `timeout` seconds."""
        ...

    def look(self) -> None:
        """Notice deaths without waiting; to be called now and then by a busy driver."""
        ...

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked in this crew, dead ones included."""
        ...

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work of every role, oldest first."""
        ...

    def close(self) -> None:
        """End every process and free all shared memory; may be called twice."""
        ...


@dataclass(frozen=True)
class PublishedLayout:
    """Shape and dtype of each array that a pool publishes; fixed for the life of the pool."""

    arrays: Mapping[str, tuple[tuple[int, ...], str]]

    @staticmethod
    def of(arrays: Mapping[str, np.ndarray]) -> "PublishedLayout":
        """Return the layout of `arrays`."""
        return PublishedLayout({name: (a.shape, a.dtype.str) for name, a in arrays.items()})


class WorkerError(RuntimeError):
    """A worker raised; carries the task and the far side's traceback as text.

    `task` is the factory if the worker could not be built; `cause` is the exception, if it travels.
    """

    def __init__(self, task: Any, error: str, traceback: str, cause: BaseException | None = None):
        super().__init__(f"{error}\nwhile running {task!r}; the worker's traceback:\n{traceback}")
        self.task = task
        self.error = error
        self.traceback = traceback
        self.cause = cause


class TaskKilledWorkers(RuntimeError):
    """The same task ended (or hung) its worker three times."""

    def __init__(self, task: Any, causes: Sequence[str]):
        super().__init__(f"{task!r} ended its worker {len(causes)} times ({', '.join(causes)})")
        self.task = task
        self.causes = tuple(causes)


class RoleKilled(RuntimeError):
    """A long-lived role ended (or hung) three times at the same place."""

    def __init__(self, role: str, index: int, causes: Sequence[str], place: str):
        super().__init__(
            f"{role} {index} ended {len(causes)} times ({', '.join(causes)}) at the same place: "
            f"{place}"
        )
        self.role = role
        self.index = index
        self.causes = tuple(causes)
        self.place = place


class WorkersLost(RuntimeError):
    """One place of a pool lost worker after worker without finishing a task."""
