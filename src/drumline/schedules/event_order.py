"""Which finished job is handled next: by virtual time, by arrival, or by a log.

In virtual order this is a conservative parallel discrete-event simulation (Chandy and Misra 1979)
whose jobs happen to be rollouts and gradient steps: a finished job is handled once no unfinished
one can still end before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from drumline.protocols import Completed
from drumline.tasks import Job


@dataclass(frozen=True)
class VirtualCosts:
    """What a step takes in virtual time, in whole nanoseconds: sums and ties are exact."""

    env_step: int
    actor_step: int
    critic_step: int

    def __post_init__(self) -> None:
        for name, cost in vars(self).items():
            if cost < 1:
                raise ValueError(f"virtual cost {name} must be at least 1 nanosecond, got {cost}")


@dataclass
class Flight:
    """One job between its virtual start and its handling; its worker has no other one."""

    worker: int
    start: int
    job: Job
    gradient_cost: int
    env_cost: int
    sent: bool = False
    progress: int = 0
    mark: int = 0
    """The progress at which the pool was asked to wake the driver."""
    done: Completed | None = None
    env_steps: int = 0
    """Known once it is done."""
    arrival: int = -1

    @property
    def earliest(self) -> tuple[int, int]:
        """The virtual end if it is done, else what it cannot fall below; ties go by worker."""
        known = self.start + self.job.gradient_steps * self.gradient_cost
        if self.done is not None:
            return known + self.env_steps * self.env_cost, self.worker
        taken = max(self.progress - self.job.gradient_steps, self.job.least_env_steps)
        return known + taken * self.env_cost, self.worker

    def progress_past(self, end: int, worker: int) -> int:
        """Return the progress with which it can no longer end before (`end`, `worker`)."""
        known = self.start + self.job.gradient_steps * self.gradient_cost
        missing = end - known + (self.worker < worker)
        return self.job.gradient_steps + -(-missing // self.env_cost)


class EventOrder(Protocol):
    """Decides what is handled next."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the finished job to handle now, or None: wait for results or progress."""
        ...

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return which unfinished jobs hold others back, each with the progress that ends it."""
        ...


class VirtualOrder:
    """By virtual end: the same for every layout."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job with the earliest possible end, if it is done."""
        first = min(flights, key=lambda flight: flight.earliest)
        return first if first.done is not None else None

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Return the unfinished that could still end before the first of the finished."""
        ends = [flight.earliest for flight in flights if flight.done is not None]
        if ends:
            end, worker = min(ends)
            for flight in flights:
                if flight.done is None and flight.earliest < (end, worker):
                    yield flight, flight.progress_past(end, worker)


class ArrivalOrder:
    """By arrival: nobody waits, and only the log of events can say what the order was."""

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job that has been done for longest."""
        done = [flight for flight in flights if flight.done is not None]
        return min(done, key=lambda flight: flight.arrival, default=None)

    def marks(self, flights: Sequence[Flight]) -> Iterable[tuple[Flight, int]]:
        """Nothing is held back."""
        return ()


class WrongLog(ValueError):
    """A log of events that is not of this run, or not of all of it."""


class LoggedOrder:
    """As an earlier run did: by the logical workers of its events."""

    def __init__(self, workers: Iterable[int]):
        self._workers: Iterator[int] = iter(workers)
        self._expected: int | None = None

    def next(self, flights: Sequence[Flight]) -> Flight | None:
        """Return the job that the log names, if it is done."""
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
        """Progress tells nothing here."""
        return ()
