"""The crew and the rotation on toy roles: the same bytes for every layout, order and death."""

import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import crew_roles
import doubles
import pytest
from campaigns import FAULTS, cases
from crew_roles import Toy, ToyLearner, begin, expected, run_toy, toy_plan
from hypothesis import given
from hypothesis import strategies as st
from typed_commands import environ

from drumline.errors import RoleKilled, WorkerError
from drumline.runtime.crews.inline_crew import InlineCrew
from drumline.runtime.crews.process_crew import ProcessCrew
from drumline.runtime.crews.roles import WAITING

POINTS_WITHOUT_ACTORS = ["role-started", "role-built", "before-look", "row-stored", "interval-full"]
POINTS_WITH_ACTORS = ["request-sent", "half-answer", "answer-sent"]


def make(kind: str, toy: Toy, **options: Any) -> Any:
    crew: Any = None
    plan = toy_plan(toy, lambda: crew.arrays)
    crew = InlineCrew(plan) if kind == "inline" else ProcessCrew(plan, **options)
    return crew


SIZES = [
    ("inline", 1, 0),
    ("inline", 2, 2),
    ("process", 1, 0),
    ("process", 3, 0),
    ("process", 2, 2),
]
LAYOUTS = [(*size, *more) for size, more in product(SIZES, product([0, 1], ["sliding", "hard"]))]
QUICK_PROCESSES = [
    ("process", 1, 0, 0, "sliding"),
    ("process", 3, 0, 1, "hard"),
    ("process", 2, 2, 0, "hard"),
    ("process", 2, 2, 1, "sliding"),
]


@pytest.mark.parametrize(
    ("kind", "executors", "actors", "lag", "barrier"),
    cases(LAYOUTS, quick=[*(case for case in LAYOUTS if case[0] == "inline"), *QUICK_PROCESSES]),
)
def test_every_layout_gives_what_the_plain_loop_gives(
    kind: str, executors: int, actors: int, lag: Any, barrier: Any
):
    toy = Toy(executors=executors, actors=actors, sleeps=True)
    crew = make(kind, toy)
    try:
        assert run_toy(crew, toy, lag=lag, barrier=barrier) == expected(toy, lag=lag)
        rows = crew.activity()
        assert len(rows) == executors + actors
        assert all(row.progress > 0 for row in rows)
    finally:
        crew.close()


@given(st.data())
def test_no_order_of_advances_changes_a_bit_or_writes_what_is_being_read(data: st.DataObject):
    toy = Toy(
        environments=data.draw(st.integers(1, 4)),
        alpha=data.draw(st.integers(1, 3)),
        executors=1,
        actors=data.draw(st.integers(0, 1)),
    )
    toy = Toy(toy.environments, toy.alpha, data.draw(st.integers(1, toy.environments)), toy.actors)
    lag = data.draw(st.sampled_from([0, 1]))
    barrier = data.draw(st.sampled_from(["sliding", "hard"]))
    crew = make("inline", toy)
    order = data.draw(st.randoms(use_true_random=False))

    def in_random_order(until: Any, timeout: float | None = None) -> bool:
        while not until():
            order.choice(crew._roles)[2].advance()
        for _ in range(order.randrange(20)):  # others may run ahead as far as they can
            order.choice(crew._roles)[2].advance()
        return True

    crew.wait = in_random_order
    try:
        assert run_toy(crew, toy, 5, lag, barrier) == expected(toy, 5, lag)
    finally:
        crew.close()


@pytest.mark.parametrize(
    ("point", "actors"),
    cases(
        [
            *((point, 0) for point in POINTS_WITHOUT_ACTORS),
            *((point, 1) for point in POINTS_WITHOUT_ACTORS + POINTS_WITH_ACTORS),
        ],
        quick=[("row-stored", 0), ("interval-full", 1), ("half-answer", 1)],
    ),
)
def test_a_role_killed_at_any_point_is_replaced_and_changes_no_bit(
    tmp_path: Path, point: str, actors: int
):
    toy = Toy(actors=actors)
    flag = tmp_path / "flag"
    lines: list[str] = []
    kill = doubles.KillAt(point, flag)
    crew = make("process", toy, probe_factory=kill, log=lines.append)
    try:
        assert run_toy(crew, toy) == expected(toy)
    finally:
        crew.close()
    assert flag.exists(), f"no role came to {point}"
    assert len(lines) == 1
    assert "SIGKILL" in lines[0]
    assert "replaced by pid" in lines[0]
    assert sum(row.restarts for row in crew.activity()) == 1


@FAULTS
def test_random_kills_from_outside_change_no_bit():
    toy = Toy(environments=6, alpha=16, executors=2, actors=1, sleeps=True)
    crew = make("process", toy, log=lambda line: None)
    kills = 0
    wait = crew.wait

    def wait_and_kill(until: Any, timeout: float | None = None) -> bool:
        nonlocal kills
        wait(until, timeout)
        if kills < 6:
            os.kill(crew._processes[kills % 3].pid, signal.SIGKILL)
            kills += 1
        return True

    crew.wait = wait_and_kill
    try:
        assert run_toy(crew, toy, intervals=12) == expected(toy, intervals=12)
    finally:
        crew.close()
    assert kills == 6


@pytest.mark.parametrize("raised", [ArithmeticError, SystemExit])
def test_a_role_that_raises_names_itself_its_place_and_its_traceback(raised: Any):
    for kind in ("inline", "process"):
        toy = Toy(raises_at=9, raised=raised)
        crew = make(kind, toy)
        try:
            with pytest.raises(WorkerError, match="cannot go on at step 9") as caught:
                run_toy(crew, toy)
            assert "executor" in str(caught.value)
            assert "in step" in caught.value.traceback
            assert isinstance(caught.value.cause, raised)
        finally:
            crew.close()


@pytest.mark.parametrize("kind", ["inline", "process"])
def test_a_role_that_raises_an_exception_without_words_is_named(kind: str):
    toy = Toy(raises_at=9, raised=doubles.SilentError)
    crew = make(kind, toy)
    try:
        with pytest.raises(WorkerError, match=r"^SilentError .its __str__ raised ZeroDivision"):
            run_toy(crew, toy)
    finally:
        crew.close()


@pytest.mark.parametrize("kind", ["inline", "process"])
def test_a_role_that_cannot_be_built_says_why(kind: str):
    plan = toy_plan(Toy(), lambda: crew.arrays, executor=crew_roles.unbuildable)
    crew: Any = InlineCrew(plan) if kind == "inline" else ProcessCrew(plan)
    try:
        with pytest.raises(WorkerError, match="no such environment: Walk-v9"):
            run_toy(crew, Toy())
    finally:
        crew.close()


def test_a_role_that_dies_three_times_at_one_place_fails_the_run_with_its_place():
    toy = Toy()
    kill = crew_roles.KillAlways("row-stored")
    crew = make("process", toy, probe_factory=kill, log=lambda line: None)
    try:
        with pytest.raises(RoleKilled, match=r"executor \d ended 3 times \(SIGKILL, .* after \[0"):
            run_toy(crew, toy)
    finally:
        crew.close()


def test_an_exception_told_before_a_death_is_raised_and_not_counted_as_a_death():
    crew = make("process", Toy(executors=1, raises_at=0), log=lambda line: None)
    try:
        begin(crew, ToyLearner(), 0, "hard")
        (process,) = crew._processes
        doubles.wait_until(process.exited)
        with pytest.raises(WorkerError, match="cannot go on at step 0"):
            crew._watch(process, 0.0)
    finally:
        crew.close()


@FAULTS
def test_a_role_that_hangs_three_times_fails_the_run():
    lines: list[str] = []
    plan = toy_plan(Toy(), lambda: crew.arrays, executor=crew_roles.HangingSpec())
    crew = ProcessCrew(plan, hang_seconds=0.3, log=lines.append)
    try:
        with pytest.raises(
            RoleKilled, match=r"3 times \((a hang of 0.3 s(, )?){3}\).*--hang-seconds"
        ):
            run_toy(crew, Toy())
    finally:
        crew.close()
    assert all("ended by a hang of 0.3 s" in line and "--hang-seconds" in line for line in lines)


def test_a_role_that_is_stopped_while_it_waits_is_replaced_and_changes_no_bit():
    toy = Toy(actors=1)
    lines: list[str] = []
    plan = toy_plan(toy, lambda: crew.arrays)
    crew = ProcessCrew(plan, hang_seconds=0.4, log=lines.append)
    wait = crew.wait
    stopped: list[int] = []

    def wait_and_stop(until: Any, timeout: float | None = None) -> bool:
        done = wait(until, timeout)
        waiting = [p for p in crew._processes if crew._rows.status(p.place).phase == WAITING]
        if not stopped and waiting:
            stopped.append(waiting[-1].pid)
            os.kill(stopped[0], signal.SIGSTOP)
        return done

    crew.wait = wait_and_stop
    try:
        assert run_toy(crew, toy) == expected(toy)
    finally:
        crew.close()
    assert stopped
    assert [f"(pid {stopped[0]}) ended by a hang of" in line for line in lines] == [True]


def test_closing_ends_every_process_and_may_be_done_twice():
    toy = Toy(executors=3, actors=1)
    crew = make("process", toy)
    run_toy(crew, toy)
    pids = [row.pid for row in crew.activity()]
    crew.close()
    crew.close()
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert [row.pid for row in crew.activity()] == pids
    assert all(span.end >= span.start for span in crew.timeline())
    assert len(crew.timeline()) >= 4


SCRIPT = """
import signal, crew_roles
from crew_roles import Toy, run_toy, toy_plan
from drumline.runtime.crews.process_crew import ProcessCrew
signal.signal(signal.SIGINT, signal.default_int_handler)
toy = Toy(executors=2, actors=1, sleeps=True)
crew = ProcessCrew(toy_plan(toy, lambda: crew.arrays))
wait = crew.wait
def tell(until, timeout=None):
    wait(until, timeout)
    print(*(row.pid for row in crew.activity()), flush=True)
    crew.wait = wait
crew.wait = tell
run_toy(crew, toy, intervals=10**9)
"""


@pytest.mark.parametrize(
    "number", cases([signal.SIGKILL, signal.SIGINT, signal.SIGTERM], quick=[signal.SIGKILL])
)
def test_no_role_outlives_a_driver_that_a_signal_ends(number: signal.Signals):
    driver = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ(),
        start_new_session=True,
    )
    with driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        os.killpg(driver.pid, number)
    assert len(pids) == 3
    doubles.wait_until(lambda: not any(doubles.is_running(pid) for pid in pids))
