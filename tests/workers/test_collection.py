"""Executors and actors on real environments: a plain loop's bytes, in every layout and fault."""

import random
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import doubles
import pytest
from campaigns import FAULTS, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from workers import rollout_harness
from workers.rollout_harness import (
    BREAKOUT,
    CONTINUOUS,
    COUNTING,
    ENVPOOL_CARTPOLE,
    FILMED,
    GYMNASIUM_CARTPOLE,
    Layout,
    MortalCrew,
    Setup,
    collect,
    differences,
    expected,
    in_processes,
)

from drumline.envs.timing import Bursts, Gamma, StepTimeLaw, Straggler
from drumline.errors import RoleKilled, WorkerError
from drumline.runtime.crews.crew_plan import CrewPlan

SETUPS = {
    "gymnasium": Setup(GYMNASIUM_CARTPOLE),
    "counting": Setup(COUNTING),
    "continuous": Setup(CONTINUOUS),
    "envpool": Setup(ENVPOOL_CARTPOLE),
    "renewed": Setup(ENVPOOL_CARTPOLE, renew_intervals=2, alpha=8),
    "filmed": Setup(FILMED),
}
LIVES = Setup(BREAKOUT, environments=3, alpha=13, intervals=5)
EXPECTED: dict[int, Any] = {}
POINTS = (
    "interval-begun",
    "first-row-written",
    "before-act",
    "before-step",
    "half-row",
    "row-stored",
    "finished",
)
ACTOR_POINTS = ("request-sent", "request-received", "half-answer", "answer-sent")
LAWS = (Gamma(2e-4), Bursts(1e-5, 1e-3, 0.2, 4.0), Straggler(1e-5, 50.0, 2))


def reference(name: str) -> Any:
    return once(SETUPS[name])


def once(setup: Setup) -> Any:
    if id(setup) not in EXPECTED:
        EXPECTED[id(setup)] = expected(setup)
    return EXPECTED[id(setup)]


@pytest.mark.parametrize("name", SETUPS)
def test_the_reference_has_ends_of_both_kinds_where_it_can(name: str):
    intervals = reference(name)
    terminated = sum(int(rows["terminated"].sum()) for rows in intervals)
    truncated = sum(int(rows["truncated"].sum()) for rows in intervals)
    assert terminated >= 2
    assert truncated >= 2
    assert len({rows["actions"].tobytes() for rows in intervals}) == len(intervals)


EVERY_PAIR = (
    *((1, 0, 0, "sliding"), (1, 1, 1, "hard"), (1, 2, 0, "hard")),
    *((2, 0, 1, "hard"), (2, 1, 0, "sliding"), (2, 2, 1, "sliding")),
    *((3, 0, 1, "sliding"), (3, 1, 0, "hard"), (3, 2, 0, "sliding")),
)
"""Layouts in which any two values of different columns meet."""


@pytest.mark.parametrize(
    ("executors", "actors", "lag", "barrier"),
    cases(product((1, 2, 3), (0, 1, 2), (0, 1), ("sliding", "hard")), quick=EVERY_PAIR),
)
def test_every_layout_collects_what_the_plain_loop_collects(
    executors: int, actors: int, lag: Any, barrier: Any
):
    layout = Layout(executors, actors, lag, barrier)
    for name, setup in SETUPS.items():
        assert not differences(collect(setup, layout), reference(name)), name


@pytest.mark.parametrize(
    ("name", "layout"),
    cases(
        [
            ("gymnasium", Layout(1, 0, 1, "sliding")),
            ("gymnasium", Layout(3, 0, 1, "hard")),
            ("gymnasium", Layout(2, 2, 1, "sliding")),
            ("gymnasium", Layout(2, 1, 0, "hard")),
            ("continuous", Layout(3, 2, 0, "sliding")),
            ("renewed", Layout(2, 0, 1, "hard")),
            ("renewed", Layout(2, 2, 1, "sliding")),
        ],
        quick=[("gymnasium", Layout(2, 2, 1, "sliding"))],
    ),
)
def test_processes_collect_what_the_plain_loop_collects(name: str, layout: Layout):
    assert not differences(collect(SETUPS[name], layout, in_processes()), reference(name))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("name", ["counting", "renewed"])
def test_slow_environments_change_no_byte(name: str, law: StepTimeLaw):
    setup = replace(SETUPS[name], step_time=law)
    for layout in (Layout(1, 0, 1, "hard"), Layout(2, 1, 1, "sliding"), Layout(2, 0, 0)):
        assert not differences(collect(setup, layout), reference(name))


@FAULTS
@pytest.mark.parametrize("name", ["counting", "renewed"])
def test_slow_environments_in_processes_change_no_byte(name: str):
    setup = replace(SETUPS[name], step_time=Gamma(5e-4))
    found = collect(setup, Layout(2, 1), in_processes())
    assert not differences(found, reference(name))


@pytest.mark.parametrize(
    ("layout", "processes"),
    cases(
        [
            (Layout(), False),
            (Layout(2, 0), True),
            (Layout(1, 1, barrier="hard"), True),
            (Layout(3, 2), False),
        ],
        quick=[(Layout(3, 2), False)],
    ),
)
def test_stacks_over_lost_lives_and_time_limits_are_the_plain_loops(
    layout: Layout, processes: bool
):
    make = in_processes() if processes else rollout_harness.InlineCrew
    found = collect(LIVES, layout, make)
    assert not differences(found, once(LIVES))
    assert sum(int(rows["terminated"].sum()) for rows in found) >= 2
    assert sum(int(rows["truncated"].sum()) for rows in found) >= 2


@FAULTS
def test_a_process_killed_between_lives_changes_no_byte(tmp_path: Path):
    kill = doubles.KillAtNth((("half-row", 29), ("row-stored", 17)), tmp_path)
    found = collect(LIVES, Layout(1, 0), in_processes(probe_factory=kill))
    assert len(list(tmp_path.iterdir())) == 2
    assert not differences(found, once(LIVES))


def test_frames_stored_once_and_whole_stacks_are_the_same_bytes():
    """Those of `LIVES` stored once are compared with the plain loop's above."""
    for setup in (LIVES, SETUPS["filmed"]):
        whole = collect(replace(setup, stored_once=False), Layout(2, 1))
        assert not differences(whole, once(setup))


@given(st.data())
@settings(max_examples=6)
def test_no_order_of_turns_and_no_death_anywhere_changes_a_byte(data: st.DataObject):
    live_and_die(data)


@FAULTS
@given(st.data())
def test_many_orders_of_turns_and_deaths_change_no_byte(data: st.DataObject):
    live_and_die(data)


def live_and_die(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SETUPS)))
    layout = Layout(
        executors=data.draw(st.integers(1, 3)),
        actors=data.draw(st.integers(0, 2)),
        lag=data.draw(st.sampled_from([0, 1])),
        barrier=data.draw(st.sampled_from(["sliding", "hard"])),
    )
    law = data.draw(st.sampled_from([None, Gamma(2e-5)]))
    rate = data.draw(st.sampled_from([0.0, 0.01, 0.05]))
    rng = data.draw(st.randoms(use_true_random=False))

    def mortal(plan: CrewPlan) -> MortalCrew:
        return MortalCrew(plan, random.Random(rng.getrandbits(32)), rate)

    found = collect(replace(SETUPS[name], step_time=law), layout, mortal)
    assert not differences(found, reference(name))


@pytest.mark.parametrize(
    "point",
    cases(
        ["role-started", "role-built", *POINTS, *ACTOR_POINTS],
        quick=["half-row", "half-answer"],
    ),
)
def test_a_process_killed_at_any_point_changes_no_byte(point: str, tmp_path: Path):
    places = [(point, 1)]
    if not point.startswith("role"):
        places.append((point, 3 if point in POINTS[:2] else 7))
    lines: list[str] = []
    layout = Layout(2, 1 if point in ACTOR_POINTS else 0)
    kill = doubles.KillAtNth(tuple(places), tmp_path)
    found = collect(SETUPS["counting"], layout, in_processes(probe_factory=kill, log=lines.append))
    assert not differences(found, reference("counting"))
    assert len(list(tmp_path.iterdir())) == len(lines) == len(places)
    assert all("SIGKILL" in line and "replaced by" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "actors"),
    [
        pytest.param("gymnasium", 0, marks=FAULTS),
        pytest.param("gymnasium", 1, marks=FAULTS),
        pytest.param("renewed", 0, marks=pytest.mark.slow),
        pytest.param("renewed", 1, marks=FAULTS),
    ],
)
def test_kills_within_episodes_and_around_renewals_change_no_byte(
    name: str, actors: int, tmp_path: Path
):
    places = (("half-row", 11), ("interval-begun", 3), ("finished", 16), ("row-stored", 9))
    lines: list[str] = []
    kill = doubles.KillAtNth(places, tmp_path)
    make = in_processes(probe_factory=kill, log=lines.append)
    assert not differences(collect(SETUPS[name], Layout(1, actors), make), reference(name))
    assert len(lines) == len(list(tmp_path.iterdir())) >= 3


def test_an_actor_that_dies_before_it_rings_is_noticed(tmp_path: Path):
    lines: list[str] = []

    def make(plan: CrewPlan) -> Any:
        deadly = doubles.DiesBeforeRinging(plan.actor, tmp_path / "flag")
        return in_processes(log=lines.append)(replace(plan, actor=deadly))

    assert not differences(collect(SETUPS["counting"], Layout(1, 1), make), reference("counting"))
    assert len(lines) == 1


@FAULTS
@pytest.mark.parametrize("name", ["counting", "renewed"])
def test_random_sleeps_at_every_point_change_no_byte(name: str):
    make = in_processes(probe_factory=doubles.SleepAt(longest=0.002))
    assert not differences(collect(SETUPS[name], Layout(2, 2), make), reference(name))


def misbehaving(**options: Any) -> Setup:
    environment = replace(COUNTING, options={"longest": 9, **options})
    return replace(SETUPS["counting"], environment=environment)


@pytest.mark.parametrize("crew", ["inline", "process"])
def test_an_environment_that_raises_fails_the_run_with_its_executor_and_step(crew: str):
    make = in_processes() if crew == "process" else rollout_harness.InlineCrew
    with pytest.raises(WorkerError, match=r"ArithmeticError: cannot make step 4") as caught:
        collect(misbehaving(raises_at=4), Layout(2, 1), make)
    where = re.search(r"executor (\d), environments (\d)… at steps \[(.*)\]", str(caught.value))
    assert where is not None
    assert (where[1], where[2]) in (("0", "0"), ("1", "3"))
    assert "3" in where[3].split(", ")
    assert isinstance(caught.value.cause, ArithmeticError)


def test_an_environment_that_hangs_fails_the_run_with_its_executor_and_step():
    lines: list[str] = []
    make = in_processes(hang_seconds=0.4, log=lines.append)
    with pytest.raises(
        RoleKilled, match=r"\((a hang of 0.4 s.*){3}\).*environments 0… at steps"
    ) as dead:
        collect(misbehaving(hangs_at=4), Layout(1, 0), make)
    assert (dead.value.role, dead.value.index) == ("executor", 0)
    assert "3" in re.findall(r"\d+", dead.value.place.partition("steps")[2])
    assert len(lines) >= 2


def test_a_first_step_that_compiles_is_no_hang():
    lines: list[str] = []
    make = in_processes(hang_seconds=1.5, log=lines.append)  # longer than a busy machine pauses
    collected = collect(misbehaving(compiles_seconds=2.5), Layout(2, 0), make)
    assert not differences(collected, once(misbehaving()))
    assert not lines


def test_more_truncations_than_there_is_room_for_name_the_flag():
    setup = replace(SETUPS["gymnasium"], alpha=40, truncations=2)
    with pytest.raises(WorkerError, match=r"truncated more than 2 times.*--truncations-per-int"):
        collect(setup, Layout())
