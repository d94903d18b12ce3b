"""Toy runs under a steady-state schedule: started, stopped, resumed, compared."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from schedules.toy_population import (
    COSTS,
    ToyPopulation,
    ToySettings,
    ToyTask,
    ToyWorkerSpec,
    event_bytes,
)

from drumline.protocols import PublishedLayout, WorkerPool
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.event_order import EventOrder, VirtualOrder
from drumline.schedules.steady_state import SteadyState
from drumline.tasks import Event, Job, Snapshot, Started

MakePool = Callable[[ToySettings, SharedArrays], WorkerPool]


class Outcome(NamedTuple):
    """Parts of a run that the promise is about: learned state, replay and events."""

    fingerprint: str
    events: bytes


class Toy:
    """One session of a toy run."""

    def __init__(
        self,
        settings: ToySettings,
        shared: SharedArrays,
        pool: WorkerPool,
        order: EventOrder | None = None,
        saved: Any = None,
    ):
        self.population = ToyPopulation(settings, shared.arrays)
        snapshot = None
        if saved is not None:
            snapshot = snapshot_from(saved)
            windows = [s.job.task.watermark for s in snapshot.started if s.job.gradient_steps]
            oldest = min(windows, default=len(saved["population"]["rows"]))
            self.population.load(saved["population"], oldest)
        self.schedule = SteadyState(
            self.population,
            pool,
            concurrency=settings.concurrency,
            costs=COSTS,
            order=order or VirtualOrder(),
            snapshot=snapshot,
        )

    def saved(self) -> dict[str, Any]:
        """Content of a checkpoint: arrays, and a document of plain values."""
        snapshot = self.schedule.snapshot()
        document = {
            "events": snapshot.events,
            "now": snapshot.now,
            "started": [[s.worker, s.start, s.job] for s in snapshot.started],
        }
        versions = {
            version: {name: array.copy() for name, array in arrays.items()}
            for version, arrays in snapshot.versions.items()
        }
        population = self.population.state()
        return {
            "document": json.dumps(document),
            "versions": versions,
            "population": population,
        }


def snapshot_from(saved: dict[str, Any]) -> Snapshot:
    document = json.loads(saved["document"])
    started = tuple(
        Started(worker, start, Job(ToyTask(*job[0]), *job[1:]))
        for worker, start, job in document["started"]
    )
    return Snapshot(document["events"], document["now"], started, saved["versions"])


def published_layout(settings: ToySettings, shared: SharedArrays) -> PublishedLayout:
    return PublishedLayout.of(ToyPopulation(settings, shared.arrays).published())


def inline(settings: ToySettings, shared: SharedArrays) -> WorkerPool:
    layout = published_layout(settings, shared)
    versions = settings.concurrency + 1
    return InlinePool(ToyWorkerSpec(settings), published=layout, versions=versions, shared=shared)


def processes(size: int, longest_sleep: float = 0.0, **options: Any) -> MakePool:
    def make(settings: ToySettings, shared: SharedArrays) -> WorkerPool:
        return ProcessPool(
            ToyWorkerSpec(settings, longest_sleep),
            size=size,
            published=published_layout(settings, shared),
            versions=settings.concurrency + 1,
            shared=shared,
            one_task_leases=True,
            **options,
        )

    return make


@contextmanager
def session(
    settings: ToySettings, make_pool: MakePool = inline, **options: Any
) -> Iterator[tuple[Toy, WorkerPool]]:
    shared = settings.memory()
    pool = make_pool(settings, shared)
    try:
        yield Toy(settings, shared, pool, **options), pool
    finally:
        pool.close()
        shared.close()


def whole(settings: ToySettings, make_pool: MakePool = inline, **options: Any) -> Outcome:
    """Run to the end."""
    with session(settings, make_pool, **options) as (toy, _):
        events = list(toy.schedule.events())
        assert toy.population.ring_agrees()
        return Outcome(toy.population.fingerprint(), event_bytes(events))


def part(toy: Toy, count: int) -> list[Event]:
    """Take a number of events and stop."""
    return list(islice(toy.schedule.events(), count))
