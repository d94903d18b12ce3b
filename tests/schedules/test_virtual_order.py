"""The virtual order under a scheduler that does what it likes: never out of order, never late."""

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules.drawn_pool import DrawnPool
from schedules.toy_population import COSTS, ToyResult, ToySettings, ToyTask, event_bytes
from schedules.toy_runs import Outcome, Toy, inline, session, whole

from drumline.protocols import Completed, WorkerPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.event_order import ArrivalOrder, Flight, LoggedOrder, VirtualOrder
from drumline.tasks import Job

CONCURRENCY = 4


def toy_settings(evaluates: bool, slack: int = 10_000) -> ToySettings:
    return ToySettings(CONCURRENCY, individuals=14, evaluates=evaluates, slack=slack)


@pytest.fixture(scope="module")
def expected() -> dict[bool, Outcome]:
    return {evaluates: whole(toy_settings(evaluates)) for evaluates in (True, False)}


class Watched:
    """Knows the run under test, and by an oracle of its own whether a job may be handled."""

    toy: Toy

    def __init__(self) -> None:
        self._begun: dict[int, tuple[ToyTask, ToyResult]] = {}

    def steps_of(self, task: ToyTask, result: ToyResult) -> int:
        self._begun[id(task)] = (task, result)
        return task.gradient_steps + result.env_steps

    def is_due(self, progress: dict[int, int]) -> bool:
        ends: list[tuple[int, int, bool]] = []
        for worker, start, job in self.toy.schedule.snapshot().started:
            gradient = COSTS.critic_step if worker == CONCURRENCY else COSTS.actor_step
            place = id(job.task)
            finished = place in self._begun and place not in progress
            if finished:
                steps = self._begun[place][1].env_steps
            else:
                steps = max(progress.get(place, 0) - job.gradient_steps, job.least_env_steps)
            end = start + job.gradient_steps * gradient + steps * COSTS.env_step
            ends.append((end, worker, finished))
        _, _, finished = min(ends)
        return finished


def drawn(
    rng: random.Random,
    processes: int,
    watched: Watched,
    settings: ToySettings,
    shared: SharedArrays,
) -> WorkerPool:
    checked = (watched.steps_of, watched.is_due)
    pool: object = DrawnPool(inline(settings, shared), processes, rng, *checked)
    return pool  # type: ignore[return-value]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 7),
    evaluates=st.booleans(),
    slack=st.sampled_from([24, 30, 60, 10_000]),
)
def test_any_scheduler_gives_the_same_bits_without_delay_or_deadlock(
    expected: dict[bool, Outcome],
    seed: int,
    processes: int,
    evaluates: bool,
    slack: int,
):
    watched = Watched()
    make_pool = partial(drawn, random.Random(seed), processes, watched)
    with session(toy_settings(evaluates, slack), make_pool) as (toy, _):
        watched.toy = toy
        events = list(toy.schedule.events())
        assert toy.population.ring_agrees()
        outcome = Outcome(toy.population.fingerprint(), event_bytes(events))
    assert outcome == expected[evaluates]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), processes=st.integers(1, 7))
def test_any_order_of_arrival_can_be_replayed_from_its_log(seed: int, processes: int):
    free = Watched()
    free.is_due = lambda progress: False  # type: ignore[method-assign]
    with session(
        toy_settings(True, 24),
        partial(drawn, random.Random(seed), processes, free),
        order=ArrivalOrder(),
    ) as (toy, _):
        events = list(toy.schedule.events())
        outcome = Outcome(toy.population.fingerprint(), event_bytes(events))
    log = [event.worker for event in events]
    assert whole(toy_settings(True, 24), order=LoggedOrder(log)) == outcome


def test_the_slack_delays_transitions_and_nothing_else(expected: dict[bool, Outcome]):
    delayed = 0
    for seed in range(20):
        watched = Watched()
        make_pool = partial(drawn, random.Random(seed), 5, watched)
        with session(toy_settings(False, 24), make_pool) as (toy, _):
            watched.toy = toy
            events = list(toy.schedule.events())
            assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected[False]
            delayed += toy.population.delayed
    assert delayed > 0


def flight(worker: int, start: int, *, progress: int = 0, env_steps: int | None = None) -> Flight:
    job = Job("task", version=0, gradient_steps=3, least_env_steps=2)
    made = Flight(worker, start, job, gradient_cost=10, env_cost=7, progress=progress)
    if env_steps is not None:
        made.done = Completed("task", None, False, 0.0, 0.0)
        made.env_steps = env_steps
    return made


def test_an_end_is_gradient_steps_and_env_steps_after_the_start():
    assert flight(0, 100, env_steps=5).earliest == (165, 0)


@pytest.mark.parametrize(("progress", "end"), [(0, 144), (4, 144), (5, 144), (6, 151), (9, 172)])
def test_an_unfinished_job_ends_no_sooner_than_its_progress_and_known_minimum(
    progress: int, end: int
):
    assert flight(0, 100, progress=progress).earliest == (end, 0)


def test_a_finished_job_waits_for_one_that_may_end_before_it():
    running, done = flight(1, 0, progress=0), flight(0, 20, env_steps=2)
    assert VirtualOrder().next([running, done]) is None
    running.progress = 6
    assert VirtualOrder().next([running, done]) is None
    running.progress = 8
    assert VirtualOrder().next([running, done]) is done


@pytest.mark.parametrize(("worker", "progress"), [(0, 7), (2, 6)])
def test_a_mark_is_the_least_progress_that_lets_the_other_be_handled(worker: int, progress: int):
    """At a tie the lower worker comes first, so a higher one need not pass the end."""
    running, done = flight(worker, 0), flight(1, 7, env_steps=2)
    assert done.earliest == (51, 1)
    ((marked, mark),) = VirtualOrder().marks([running, done])
    assert marked is running
    assert mark == progress
    running.progress = mark - 1
    assert VirtualOrder().next([running, done]) is None
    running.progress = mark
    assert VirtualOrder().next([running, done]) is done
    assert list(VirtualOrder().marks([running, done])) == []
