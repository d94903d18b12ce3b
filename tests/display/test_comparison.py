"""The picture of a comparison."""

from pathlib import Path

import numpy as np
import pytest
from imageio import v2 as imageio

from drumline.display.comparison import Group, comparison_figure, draw_comparison, score_at
from drumline.display.run_data import RunCurve

BLUE = (0x00, 0x72, 0xB2)


def curve(seconds: list[float], returns: list[float]) -> RunCurve:
    none = np.zeros(0)
    steps = 100.0 * np.arange(1, len(returns) + 1)
    return RunCurve("run", steps, np.array(seconds), np.array(returns), none, none, none, none)


def blue_columns(picture: np.ndarray) -> int:
    """Columns of the right half, where time is the clock, that hold the group's own colour."""
    right = picture[:420, picture.shape[1] // 2 + 60 :, :3].astype(int)
    return int(np.sum(np.any(np.abs(right - BLUE).max(axis=-1) < 60, axis=0)))


@pytest.mark.parametrize(
    "clocks",
    [
        ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]),  # one ends before the other begins
        ([1.0, 2.0, 3.0], [3.0, 4.0, 5.0]),  # at the very moment
        ([1.0, 2.0, 3.0], [2.5, 9.0, 90.0]),  # little in common
    ],
)
def test_the_time_panel_is_drawn_whatever_the_runs_of_a_group_have_in_common(
    tmp_path: Path, clocks: tuple[list[float], list[float]]
):
    group = Group("es", tuple(curve(seconds, [1.0, 2.0, 3.0]) for seconds in clocks))
    draw_comparison([group], tmp_path / "c.png")
    assert blue_columns(imageio.imread(tmp_path / "c.png")) > 200


def test_a_run_of_one_update_is_a_point(tmp_path: Path):
    draw_comparison([Group("es", (curve([1.0], [1.0]),))], tmp_path / "c.png")
    assert blue_columns(imageio.imread(tmp_path / "c.png")) >= 3


def test_seconds_have_no_unit_of_their_own():
    figure = comparison_figure([Group("es", (curve([0.2, 0.4, 0.8], [1.0, 2.0, 3.0]),))])
    _, time = figure.axes
    ticks = [label.get_text() for label in time.get_xticklabels()]
    assert "0.4" in ticks, ticks


def test_a_run_that_has_ended_keeps_its_last_value():
    group = Group("es", (curve([1.0, 2.0], [1.0, 3.0]), curve([10.0, 20.0], [5.0, 7.0])))
    alone, both = (
        score_at(group, "training", "wall_seconds", 5.0),
        score_at(group, "training", "wall_seconds", 20.0),
    )
    assert alone is not None
    assert both is not None
    assert (alone.runs, alone.iqm) == (1, 3.0)
    assert (both.runs, both.iqm) == (2, 5.0)
