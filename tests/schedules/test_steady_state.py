"""The steady-state schedule over one toy run: order of hooks, versions, replay, stops."""

from itertools import pairwise

import pytest
from schedules.toy_population import COSTS, ToyPopulation, ToySettings, event_bytes
from schedules.toy_runs import Outcome, inline, part, session, whole

from drumline.errors import StrategyFailed
from drumline.schedules.event_order import ArrivalOrder, LoggedOrder, VirtualCosts, WrongLog
from drumline.schedules.steady_state import SteadyState
from drumline.tasks import Event, Job, Told

SHORT = ToySettings(concurrency=3, individuals=9)


@pytest.fixture(scope="module")
def expected() -> Outcome:
    return whole(SHORT)


def test_a_toy_run_has_every_kind_of_job():
    with session(ToySettings(individuals=30)) as (toy, _):
        events = list(toy.schedule.events())
        kinds = {event.task.kind for event in events}
        assert kinds == {"rollout", "refine", "evaluate", "critic"}
        assert toy.population.counters["told"] == 30


def test_events_are_handled_in_virtual_order_with_ties_by_worker():
    with session(SHORT) as (toy, _):
        events = list(toy.schedule.events())
    assert [event.index for event in events] == list(range(len(events)))
    assert all((a.end, a.worker) < (b.end, b.worker) for a, b in pairwise(events))
    for event in events:
        step = COSTS.critic_step if event.worker == SHORT.concurrency else COSTS.actor_step
        duration = event.task.gradient_steps * step + event.env_steps * COSTS.env_step
        assert event.end - event.start == duration


def test_a_worker_starts_its_next_job_at_the_event_that_ended_its_last(expected: Outcome):
    with session(SHORT) as (toy, _):
        events = list(toy.schedule.events())
    for worker in range(SHORT.concurrency):
        own = [event for event in events if event.worker == worker]
        assert own[0].start == 0
        assert all(a.end == b.start for a, b in pairwise(own))


@pytest.mark.parametrize("evaluates", [True, False])
@pytest.mark.parametrize("slack", [24, 40, 1000])
def test_the_slack_of_the_ring_changes_no_bit(evaluates: bool, slack: int):
    settings = ToySettings(concurrency=3, individuals=12, evaluates=evaluates, slack=slack)
    roomy = ToySettings(concurrency=3, individuals=12, evaluates=evaluates, slack=100_000)
    with session(settings) as (toy, _), session(roomy) as (other, _):
        events, others = list(toy.schedule.events()), list(other.schedule.events())
        assert toy.population.fingerprint() == other.population.fingerprint()
    assert [(e.end, e.worker, e.result) for e in events] == [
        (e.end, e.worker, e.result) for e in others
    ]


def test_stopping_and_resuming_at_every_event_changes_no_bit(expected: Outcome):
    with session(SHORT) as (toy, _):
        total = len(list(toy.schedule.events()))
    assert total >= 20
    for stop in range(total + 1):
        with session(SHORT) as (toy, _):
            before = part(toy, stop)
            saved = toy.saved()
        with session(SHORT, saved=saved) as (toy, _):
            events = [*before, *toy.schedule.events()]
            assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected


def test_stopping_again_and_again_changes_no_bit(expected: Outcome):
    saved, events = None, []
    for _ in range(200):
        with session(SHORT, saved=saved) as (toy, _):
            taken = part(toy, 1)
            events += taken
            saved, fingerprint = toy.saved(), toy.population.fingerprint()
        if not taken:
            break
    assert Outcome(fingerprint, event_bytes(events)) == expected


def test_a_stop_while_waiting_leaves_what_the_last_event_left(expected: Outcome):
    with session(SHORT) as (toy, pool):
        events = toy.schedule.events()
        before = [next(events) for _ in range(7)]

        def interrupted(timeout: float | None = None):
            raise KeyboardInterrupt

        pool.completed = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            before.extend(events)  # what came before the exception stays
        saved = toy.saved()
    with session(SHORT, saved=saved) as (toy, _):
        events = [*before, *toy.schedule.events()]
        assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected


def test_resuming_asks_for_nothing_while_jobs_are_in_flight():
    with session(SHORT) as (toy, _):
        total = len(list(toy.schedule.events()))
    with session(SHORT) as (toy, _):
        part(toy, total - 1)
        saved = toy.saved()
    with session(SHORT, saved=saved) as (toy, pool):
        asked: list[int] = []
        toy.population.ask = lambda worker: asked.append(worker)  # type: ignore[method-assign]
        completed = pool.completed

        def looking(timeout: float | None = None):
            assert asked == []
            pool.completed = completed  # type: ignore[method-assign]
            return completed(timeout)

        pool.completed = looking  # type: ignore[method-assign]
        assert len(list(toy.schedule.events())) == 1
        assert asked


def test_a_run_that_ended_goes_on_if_there_is_more_to_do():
    with session(SHORT) as (toy, _):
        list(toy.schedule.events())
        saved = toy.saved()
    longer = ToySettings(concurrency=3, individuals=12)
    with session(longer, saved=saved) as (toy, _):
        assert list(toy.schedule.events())
        assert toy.population.counters["told"] == 12


def test_the_log_of_a_run_in_order_of_arrival_replays_to_the_same_bits():
    with session(SHORT, order=ArrivalOrder()) as (toy, _):
        events = list(toy.schedule.events())
        fingerprint = toy.population.fingerprint()
    log = [event.worker for event in events]
    assert whole(SHORT, order=LoggedOrder(log)) == Outcome(fingerprint, event_bytes(events))


def test_a_log_that_ends_early_or_belongs_to_another_run_says_so():
    with (
        session(SHORT, order=LoggedOrder([0, 1])) as (toy, _),
        pytest.raises(WrongLog, match="the log of events ends here"),
    ):
        list(toy.schedule.events())
    with (
        session(SHORT, order=LoggedOrder([7])) as (toy, _),
        pytest.raises(WrongLog, match="of logical worker 7, which has no job"),
    ):
        list(toy.schedule.events())


def test_hooks_are_called_in_the_order_of_the_design():
    calls: list[str] = []

    class Recording(ToyPopulation):
        def tell(self, *arguments: object) -> Told:
            calls.append("tell")
            return super().tell(*arguments)  # type: ignore[arg-type]

        def take_critic(self, *arguments: object) -> Told:
            calls.append("take_critic")
            return super().take_critic(*arguments)  # type: ignore[arg-type]

        def ask_critic(self) -> Job | None:
            calls.append("ask_critic")
            return super().ask_critic()

        def ask(self, worker: int) -> Job | None:
            calls.append(f"ask {worker}")
            return super().ask(worker)

    shared = SHORT.memory()
    pool = inline(SHORT, shared)
    population = Recording(SHORT, shared.arrays)
    schedule = schedule_of(population, pool)
    critic_is_busy = False
    for event in schedule.events():
        if event.index == 0:
            assert calls[:4] == ["ask_critic", "ask 0", "ask 1", "ask 2"]
            calls = calls[4:]
        asks = [] if critic_is_busy and event.worker != 3 else ["ask_critic"]
        if event.worker == 3:
            assert calls[:2] == ["take_critic", "ask_critic"]
        else:
            assert calls[: 2 + len(asks)] == ["tell", *asks, f"ask {event.worker}"]
        critic_is_busy = any(s.worker == 3 for s in schedule.snapshot().started)
        calls.clear()
        if population.counters["asked"] == SHORT.individuals:
            break  # from here on idle workers are asked in vain
    pool.close()
    shared.close()


def schedule_of(population: ToyPopulation, pool: object, concurrency: int = 3) -> SteadyState:
    return SteadyState(
        population,
        pool,  # type: ignore[arg-type]
        concurrency=concurrency,
        costs=COSTS,
        order=ArrivalOrder(),
    )


def test_the_time_line_has_a_span_for_every_job_of_every_logical_worker():
    with session(SHORT) as (toy, _):
        events = list(toy.schedule.events())
        spans = toy.schedule.timeline()
    workers = [span.index for span in spans if span.role == "logical worker"]
    assert sorted(workers) == sorted(event.worker for event in events if event.worker < 3)
    assert sum(span.role == "logical critic" for span in spans) == len(events) - len(workers)
    assert all(span.end > span.start for span in spans)


class _Wrong(ToyPopulation):
    """Returns the same wrong first job for every worker."""

    def __init__(self, *arguments: object, change: dict[str, object]):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._change = change

    def ask(self, worker: int) -> Job | None:
        job = super().ask(worker)
        return None if job is None else job._replace(**self._change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"least_env_steps": 0}, ValueError, "a job takes at least one step"),
        ({"least_env_steps": 99}, ValueError, r"took \d+ env steps, but was to take 99"),
        (
            {"transitions": 5},
            RuntimeError,
            r"every job waits .* \(the first for 5\), but it has taken 0",
        ),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(
    change: dict[str, object], error: type[Exception], message: str
):
    shared = SHORT.memory()
    pool = inline(SHORT, shared)
    schedule = schedule_of(_Wrong(SHORT, shared.arrays, change=change), pool)
    with pytest.raises(error, match=message):
        list(schedule.events())
    pool.close()
    shared.close()


def test_costs_and_concurrency_below_one_are_refused():
    with pytest.raises(ValueError, match=r"virtual cost actor_step must be at least 1 .* got 0"):
        VirtualCosts(1, 0, 1)
    with pytest.raises(ValueError, match="concurrency must be at least 1, got 0"):
        schedule_of(ToyPopulation(SHORT, {}), None, concurrency=0)


def test_an_event_says_how_long_it_waited_for_its_turn():
    with session(SHORT) as (toy, _):
        events: list[Event] = list(toy.schedule.events())
    assert all(event.waited_seconds >= 0.0 for event in events)


def test_a_population_that_asks_for_something_else_than_a_job_is_named():
    shared = SHORT.memory()
    pool = inline(SHORT, shared)
    population = ToyPopulation(SHORT, shared.arrays)
    population.ask = lambda worker: []  # type: ignore[assignment,return-value]
    with pytest.raises(StrategyFailed, match=r"^ToyPopulation returned \[\] where a job"):
        list(schedule_of(population, pool).events())
    pool.close()
    shared.close()
