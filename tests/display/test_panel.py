import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.display.glyphs import BLOCKS, bar, sparkline
from drumline.display.panel import rows
from drumline.display.state import DisplayState

STATE = DisplayState(
    method="es",
    env_id="HalfCheetah-v5",
    update=1_234,
    env_steps=1_440_000,
    total_steps=2_880_000,
    episodes=49_360,
    wall_seconds=31.0,
    return_curve=[float(i) for i in range(500)],
    evaluation_mean=2386.1,
    evaluation_best=2411.9,
    env_steps_per_second_10s=45_912.0,
    env_steps_per_second_run=44_100.0,
    eta_seconds=32.0,
    busy_shares=[0.97, 0.5],
    restarts=0,
    update_skipped=0,
)


def text(state: DisplayState = STATE, width: int = 65, **changes) -> str:
    lines = rows(dataclasses.replace(state, **changes), width, 20)
    return "\n".join(f"{line.label}: {line.drawing}{line.words}" for line in lines)


def test_everything_of_interest_is_shown():
    shown = text(restarts=2, update_skipped=3, phases={"update": 0.023})
    for part in (
        "499.0", "2386.1   best 2411.9", "50%  1.44M / 2.88M", "0:31   ETA 0:32",
        "1,234   episodes 49,360   skipped 3", "45.9k env steps/s last 10 s", "44.1k whole run",
        "update 2.3%", "97%", "2 restarted",
    ):  # fmt: skip
        assert part in shown


@given(
    width=st.integers(20, 120),
    workers=st.integers(0, 80),
    updates=st.integers(0, 300),
    unicode=st.booleans(),
    roles=st.booleans(),
)
def test_no_line_is_wider_than_asked(width, workers, updates, unicode, roles):
    state = dataclasses.replace(
        STATE,
        busy_shares=[0.5] * workers,
        return_curve=[1.0] * updates,
        update_skipped=9,
        busy_roles={f"role {i}": [0.5] * workers for i in range(updates % 9)} if roles else {},
        busy_history={"role 0": [0.5] * updates},
        metrics={f"number_{i}": float(i) for i in range(updates % 20)},
        evaluation_info={f"told {i}": float(i) for i in range(updates % 12)},
    )
    lines = rows(state, width, 20, unicode=unicode)
    assert max(len(line.drawing) + len(line.words) for line in lines) <= width
    assert len(lines) <= 20
    if not unicode:
        assert all((line.drawing + line.words).isascii() for line in lines)


def test_each_of_a_few_workers_has_its_bar():
    shown = text(busy_shares=[0.1, 0.2, 0.3])
    assert all(percent in shown for percent in ("10%", "20%", "30%"))


def test_many_workers_are_folded_into_one_strip_and_its_extremes():
    shown = text(busy_shares=[0.1] + [0.9] * 62 + [1.0])
    assert "64 workers: min 10% median 90% max 100%" in shown
    assert "▂" + "▇" * 62 + "█" in shown


def test_each_role_has_a_strip_of_its_last_seconds_and_the_bottleneck_is_named():
    shown = text(
        busy_roles={"executor": [0.2, 0.4], "learner": [0.97]},
        busy_history={"executor": [0.0, 0.5, 1.0], "learner": [1.0] * 200},
        restarts=2,
    )
    assert "executor: ▁▅█" in shown
    assert "30%  2: 20% to 40%" in shown
    assert "learner: " + "█" * 41 in shown
    assert "bound by: learner, busy 97% of the last second" in shown
    assert "2 restarted" in shown
    assert "bound by: driver, or waiting: worker, busy 40%" in text(busy_roles={"worker": [0.4]})


def test_the_methods_own_numbers_fill_two_lines_at_most():
    shown = text(metrics={"policy_loss": -0.0123, "approximate_kl_nats": 0.005})
    assert "learning: policy loss -0.0123 · kl 0.005" in shown
    many = text(metrics={f"number_{i}": 1.0 for i in range(40)}).splitlines()
    assert sum("number" in line for line in many) == 2


def test_a_run_that_has_just_begun_shows_no_numbers_that_it_lacks():
    shown = text(return_curve=[], evaluation_mean=None, eta_seconds=None, total_steps=None)
    assert "waiting for the first update" in shown
    assert "evaluation" not in shown
    assert "ETA -" in shown


def test_sparkline_keeps_the_whole_run_in_view():
    assert sparkline([0.0] * 50 + [1.0] * 50, 10) == BLOCKS[0] * 5 + BLOCKS[-1] * 5


def test_sparkline_of_equal_values_is_flat_and_of_missing_ones_has_gaps():
    assert sparkline([3.0, 3.0, 3.0], 8) == BLOCKS[0] * 3
    assert sparkline([0.0, math.nan, 1.0], 8) == BLOCKS[0] + " " + BLOCKS[-1]
    assert sparkline([math.nan] * 3, 8) == "   "
    assert sparkline([], 8) == ""


@pytest.mark.parametrize(("share", "full"), [(-1, 0), (0, 0), (0.5, 4), (1, 8), (3, 8)])
def test_a_bar_is_full_to_its_share(share, full):
    assert bar(share, 8).count("█") == full
    assert len(bar(share, 8)) == 8


def test_the_time_of_each_phase_and_the_use_of_the_machine_are_shown():
    shown = text(
        phases={"update": 0.023, "evaluation": 0.25, "checkpoints": 0.004},
        memory_bytes=3 << 29,
        cores_busy=1.86,
        cores=2,
    )
    assert "time in: update 2.3% · evaluation 25% · checkpoints 0.4%" in shown
    assert "machine: 1.9 of 2 cores · 1.50 GiB" in shown
    assert "machine:" not in text(), "nothing is shown before the first sample"
    assert "time in:" not in text(), "no phase has had time"


def test_numbers_of_the_environments_info_have_a_row():
    shown = text(evaluation_info={"is_success": 0.25, "x_position": 1234.5})
    assert "info: is_success 0.2" in shown
    assert "x_position 1234.5" in shown
    assert "info:" not in text()
