"""Steady state: a logical worker gets its next job when the end of its last job is handled.

    ask ─ job ─▶ pool ─ result ─▶ wait for its turn ─▶ tell ─ critic ─▶ ask …

There are no generations to wait for. The order of the events alone decides the learned state, and
under the virtual clock the jobs alone decide that order (docs/adr/0010). The number of processes,
their speed and their deaths change nothing.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from drumline.errors import StrategyFailed
from drumline.protocols import Completed, Population, WorkerPool
from drumline.schedules.event_order import EventOrder, Flight, VirtualCosts
from drumline.tasks import Event, Job, Snapshot, Started
from drumline.types import Span

_LOOK_SECONDS = 0.25  # results and marks wake the driver earlier; this is for the display
_SPANS_KEPT = 50_000


class SteadyState:
    """Loop of `concurrency` logical workers and a critic over one pool.

    The pool keeps one version of the published arrays for each of them.
    """

    def __init__(
        self,
        population: Population,
        pool: WorkerPool,
        *,
        concurrency: int,
        costs: VirtualCosts,
        order: EventOrder,
        snapshot: Snapshot | None = None,
        asks_again: bool = False,
    ):
        """Go on from `snapshot`, with a population whose state was taken at the same moment.

        With `asks_again`, logical workers without a job in the snapshot get one at once.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        begin = Snapshot() if snapshot is None else snapshot
        self._population = population
        self._pool = pool
        self._concurrency = concurrency
        self._costs = costs
        self._order = order
        self._asks_again = asks_again
        self._events = begin.events
        self._now = begin.now
        self._arrived = 0
        self._flights: dict[int, Flight] = {}
        """Jobs by logical worker, in the order of their starts."""
        self._versions: dict[int, Mapping[str, Any]] = dict(begin.versions)
        """The published arrays of the versions that jobs in flight name."""
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        pool.retain(self._versions.keys())
        for version, arrays in begin.versions.items():
            pool.publish(version, arrays)
        for worker, start, job in begin.started:
            self._start(worker, start, job)

    def events(self) -> Iterator[Event]:
        """Yield every handled event until no job is in flight; the consumer may stop anywhere.

        At a yield, and while an exception leaves this iterator, `snapshot()` and the population
        are as they were after the latest event.
        """
        if self._asks_again or not self._flights:
            self._start_idle()
        self._send()
        while self._flights:
            flight = self._order.next(list(self._flights.values()))
            if flight is None or flight.done is None:
                self._wait()
            else:
                yield self._handle(flight, flight.done)

    def snapshot(self) -> Snapshot:
        """Return the jobs in flight and their versions; a `SteadyState` can go on from them."""
        started = [Started(f.worker, f.start, f.job) for f in self._flights.values()]
        return Snapshot(self._events, self._now, tuple(started), dict(self._versions))

    def timeline(self) -> list[Span]:
        """Return the latest jobs by logical worker; a gap between two jobs is waiting time."""
        return list(self._spans)

    def _handle(self, flight: Flight, done: Completed) -> Event:
        population, worker = self._population, flight.worker
        del self._flights[worker]
        self._now, _ = flight.earliest
        if worker == self._concurrency:
            told = population.take_critic(done.task, done.result)
        else:
            told = population.tell(worker, done.task, done.result)
        self._start_idle()
        event = Event(
            index=self._events,
            worker=worker,
            start=flight.start,
            end=self._now,
            env_steps=flight.env_steps,
            task=done.task,
            result=done.result,
            told=told,
            waited_seconds=time.perf_counter() - done.ended,
        )
        self._events += 1
        self._send()
        return event

    def _start_idle(self) -> None:
        """Start the critic if it is idle, then every idle logical worker by number."""
        for worker in (self._concurrency, *range(self._concurrency)):
            if worker not in self._flights:
                critic = worker == self._concurrency
                job = self._population.ask_critic() if critic else self._population.ask(worker)
                if job is not None:
                    self._refuse_no_job(job)
                    if job.version not in self._versions:
                        self._publish(job.version, self._population.published())
                    self._start(worker, self._now, job)

    def _refuse_no_job(self, job: object) -> None:
        if not isinstance(job, Job):
            raise StrategyFailed(
                f"{type(self._population).__name__} returned {job!r:.80} where a job was asked: it "
                "must return a Job, or None for none"
            )

    def _start(self, worker: int, start: int, job: Job) -> None:
        if job.gradient_steps + job.least_env_steps < 1:
            raise ValueError(f"a job takes at least one step, but {job} has none")
        costs = self._costs
        critic = worker == self._concurrency
        gradient_cost = costs.critic_step if critic else costs.actor_step
        self._flights[worker] = Flight(worker, start, job, gradient_cost, costs.env_step)

    def _publish(self, version: int, arrays: Mapping[str, Any]) -> None:
        """Publish a version and drop those that no job in flight names."""
        named = {flight.job.version for flight in self._flights.values()}
        self._versions = {old: kept for old, kept in self._versions.items() if old in named}
        self._versions[version] = arrays
        self._pool.retain(self._versions.keys())
        self._pool.publish(version, arrays)

    def _send(self) -> None:
        """Append transitions as far as running jobs allow; send the jobs that wait for them."""
        unfinished = [flight for flight in self._flights.values() if flight.done is None]
        in_use = [f.job.watermark for f in unfinished if f.job.watermark is not None]
        oldest = min(in_use, default=None)
        taken = self._population.fill(oldest)
        ready = [f for f in unfinished if not f.sent and f.job.transitions <= taken]
        for flight in ready:
            flight.sent = True
        if ready:
            self._pool.submit([flight.job.task for flight in ready])
        if unfinished and not any(flight.sent for flight in unfinished):
            raise RuntimeError(
                f"every job waits for the replay to take transitions (the first for "
                f"{unfinished[0].job.transitions}), but it has taken {taken} and the oldest "
                f"watermark in use is {oldest}: it has too little slack"
            )

    def _wait(self) -> None:
        flights = list(self._flights.values())
        for flight, mark in self._order.marks(flights):
            if flight.sent and flight.mark != mark:
                flight.mark = mark
                self._pool.wake_at(flight.job.task, mark)
        by_task = {id(flight.job.task): flight for flight in flights}
        finished = self._pool.completed(_LOOK_SECONDS)
        for done in finished:
            self._arrive(by_task[id(done.task)], done)
        for task, progress in self._pool.progressed():
            by_task[id(task)].progress = progress
        if finished:
            self._send()

    def _arrive(self, flight: Flight, done: Completed) -> None:
        env_steps = self._population.env_steps(done.task, done.result)
        if env_steps < flight.job.least_env_steps:
            raise ValueError(
                f"a task took {env_steps} env steps, but was to take {flight.job.least_env_steps} "
                f"at least: train with a smaller --least-env-steps ({done.task!r})"
            )
        flight.done, flight.env_steps, flight.arrival = done, env_steps, self._arrived
        self._arrived += 1
        role, index = "logical worker", flight.worker
        if flight.worker == self._concurrency:
            role, index = "logical critic", 0
        self._spans.append(Span(role, index, done.began, done.ended, 1))
