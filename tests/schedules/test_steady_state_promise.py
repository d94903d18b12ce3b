"""The promise on real processes: number, delays, deaths and stops change no bit and no event."""

from pathlib import Path

import doubles
import pytest
from campaigns import FAULTS
from schedules.toy_population import KINDS, ToySettings, event_bytes
from schedules.toy_runs import Outcome, part, processes, session, whole

from drumline.runs.event_log import event_line, logged_workers
from drumline.schedules.event_order import ArrivalOrder, LoggedOrder

RUN = ToySettings(concurrency=4, individuals=14, slack=24)
POOL_POINTS = (
    "lease-received",
    "before-task",
    "after-task",
    "before-result",
    "half-result",
    "result-sent",
    "mark-reached",
)


def slow(value: object) -> object:
    return pytest.param(value, marks=pytest.mark.slow)


def faults(value: object) -> object:
    return pytest.param(value, marks=FAULTS)


@pytest.fixture(scope="module")
def expected() -> Outcome:
    return whole(RUN)


@pytest.mark.parametrize("size", [faults(1), slow(2), 3, slow(5), faults(7)])
def test_any_number_of_processes_with_random_delays_gives_the_same_bits(
    expected: Outcome, size: int
):
    lines: list[str] = []
    make_pool = processes(size, longest_sleep=0.004, log=lines.append)
    with session(RUN, make_pool) as (toy, pool):
        events = list(toy.schedule.events())
        assert toy.population.ring_agrees()
        assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected
        assert sum(row.tasks for row in pool.activity()) == len(events)
    assert lines == []


@pytest.mark.parametrize("stage", [pytest.param("half", marks=FAULTS), slow("begun"), slow("end")])
def test_a_kill_at_any_step_of_every_kind_of_job_changes_no_bit(
    expected: Outcome, stage: str, tmp_path: Path
):
    lines: list[str] = []
    points = tuple((f"{kind}-{stage}", 1) for kind in KINDS)
    fault = doubles.KillAtNth(points, tmp_path)
    assert whole(RUN, processes(2, probe_factory=fault, log=lines.append)) == expected
    assert sorted(flag.name for flag in tmp_path.iterdir()) == sorted(
        f"{point}-{count}" for point, count in points
    )
    assert len(lines) == len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("point", POOL_POINTS)
def test_a_kill_at_any_step_of_the_protocol_changes_no_bit(
    expected: Outcome, point: str, tmp_path: Path
):
    lines: list[str] = []
    fault = doubles.KillAtNth(((point, 1), (point, 3)), tmp_path)
    make_pool = processes(3, longest_sleep=0.002, probe_factory=fault, log=lines.append)
    assert whole(RUN, make_pool) == expected
    assert len(lines) == len(list(tmp_path.iterdir())) > 0


@FAULTS
@pytest.mark.parametrize("seed", [0, slow(1)])
def test_kills_at_random_moments_change_no_bit(expected: Outcome, seed: int):
    lines: list[str] = []
    make_pool = processes(3, longest_sleep=0.004, log=lines.append)

    def flaky(settings: ToySettings, shared: object) -> doubles.FlakyPool:
        return doubles.FlakyPool(make_pool(settings, shared), seed, every=6, deaths=4)  # type: ignore[arg-type]

    with session(RUN, flaky) as (toy, pool):  # type: ignore[arg-type]
        doubles.wait_ready(pool.pool)  # type: ignore[attr-defined] # only the ready are killed
        events = list(toy.schedule.events())
        assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected
        assert pool.deaths > 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("stop", [slow(0), 9, slow(21)])
def test_stopping_processes_and_resuming_on_another_number_changes_no_bit(
    expected: Outcome, stop: int
):
    with session(RUN, processes(3, longest_sleep=0.002)) as (toy, _):
        before = part(toy, stop)
        saved = toy.saved()
    with session(RUN, processes(2), saved=saved) as (toy, _):
        events = [*before, *toy.schedule.events()]
        assert Outcome(toy.population.fingerprint(), event_bytes(events)) == expected


def test_the_log_of_the_wall_clock_replays_to_the_same_bits_on_any_layout(tmp_path: Path):
    make_pool = processes(3, longest_sleep=0.004)
    with session(RUN, make_pool, order=ArrivalOrder()) as (toy, _):
        events = list(toy.schedule.events())
        free = Outcome(toy.population.fingerprint(), event_bytes(events))
    log = tmp_path / "events.jsonl"
    log.write_bytes(b"".join(event_line(event) for event in events))
    assert whole(RUN, processes(2), order=LoggedOrder(logged_workers(log))) == free
    assert whole(RUN, order=LoggedOrder(logged_workers(log))) == free
