"""EventOrder: the finished job to handle next, by virtual time, by arrival or by an event log.

The virtual order is a conservative parallel discrete-event simulation (Chandy and Misra 1979) with
rollouts and gradient steps as its jobs. A finished job is handled once no unfinished job can end
before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from drumline.protocols import Completed
from drumline.tasks import Job


@dataclass(frozen=True)
class VirtualCosts:
    """Virtual duration of one step, in whole nanoseconds, so that sums and ties are exact."""

    env_step: int
    actor_step: int
    critic_step: int

    def __post_init__(self) -> None:
        for name, cost in vars(self).items():
            if cost < 1:
                raise ValueError(f"virtual cost {name} must be at least 1 nanosecond, got {cost}")


@dataclass
class Flight:
    """One job between its virtual start and its handling; its logical worker has no other job."""

    worker: int
    start: int
    job: Job
    gradient_cost: int
    env_cost: int
    sent: bool = False
    progress: int = 0
    mark: int = 0
    """Progress (steps) at which the pool was asked to wake the driver."""
    done: Completed | None = None
    env_steps: int = 0
    """Env steps of the job; known once it is done."""
    arrival: int = -1

    @property
    def earliest(self) -> tuple[int, int]:
        """(virtual end, worker), of an unfinished job the earliest possible; ties go by worker."""
        known = self.start + self.job.gradient_steps * self.gradient_cost
        if self.done is not None:
            return known + self.env_steps * self.env_cost, self.worker
        taken = max(self.progress - self.job.gradient_steps, self.job.least_env_steps)
        return known + taken * self.env_cost, self.worker

    def progress_past(self, end: int, worker: int) -> int:
        """Return the progress from which on the job can no longer end before (`end`, `worker`)."""
        known = self.start + self.job.gradient_steps * self.gradient_cost
        missing = end - known + (self.worker < worker)
        return self.job.gradient_steps + -(-missing // self.env_cost)


class EventOrder(Protocol):
    """The order in which finished jobs are handled."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the finished job to handle now, or None: wait for results or progress."""
        ...

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return the unfinished jobs that hold others back, each with the progress that ends it."""
        ...


class VirtualOrder:
    """Jobs in order of their virtual end, which is the same for every layout."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job with the earliest possible end, if it is done."""
        first = min(flights, key=lambda flight: flight.earliest)
        return first if first.done is not None else None

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return the unfinished jobs that could still end before the first finished one."""
        ends = [flight.earliest for flight in flights if flight.done is not None]
        if ends:
            end, worker = min(ends)
            for flight in flights:
                if flight.done is None and flight.earliest < (end, worker):
                    yield flight, flight.progress_past(end, worker)


class ArrivalOrder:
    """Jobs in order of arrival (`--clock wall`); `LoggedOrder` replays it from the event log."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job that finished first."""
        done = [flight for flight in flights if flight.done is not None]
        return min(done, key=lambda flight: flight.arrival, default=None)

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return nothing: arrival order holds no job back."""
        return ()


class WrongLog(ValueError):
    """An event log of another run, or with fewer events than asked for."""


class LoggedOrder:
    """Jobs in the order of an earlier run's event log."""

    def __init__(self, workers: Iterable[int]):
        self._workers: Iterator[int] = iter(workers)
        self._expected: int | None = None

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job that the log names, if it is done; raises WrongLog if it does not fit."""
        if self._expected is None:
            self._expected = next(self._workers, None)
            if self._expected is None:
                raise WrongLog(
                    "the log of events ends here, and jobs are in flight: take no more events "
                    "than it holds"
                )
        named = [flight for flight in flights if flight.worker == self._expected]
        if not named:
            raise WrongLog(
                f"the log's next event is of logical worker {self._expected}, which has no job "
                "in flight: the log belongs to another run"
            )
        if named[0].done is None:
            return None
        self._expected = None
        return named[0]

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return nothing: the log alone gives the order."""
        return ()
