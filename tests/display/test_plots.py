import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from imageio import v2 as imageio

from drumline.display.plots import curves_figure, write_picture
from drumline.display.run_data import read_run
from drumline.runs.folder import RunError

METRICS = "update,env_steps,wall_seconds,episode_return_mean,other\n"
EVALUATIONS = "update,env_steps,episodes,mean,standard_error,minimum,maximum,returns,lengths\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "es-CartPole-v1-s0"
    folder.mkdir()
    rows = [f"{i},{1000 * i},{2.0 * i},{10.0 * i!r},\n" for i in range(1, 21)]
    (folder / "metrics.csv").write_text(METRICS + "".join(rows))
    evaluations = "5,5000,2,52.5,1.5,51.0,54.0,51.0;54.0,9;9\n20,20000,1,200.0,nan,2,2,2,9\n"
    (folder / "evaluations.csv").write_text(EVALUATIONS + evaluations)
    return folder


def test_a_run_folder_is_read_back(folder):
    run = read_run(folder)
    assert run.label == "es-CartPole-v1-s0"
    np.testing.assert_array_equal(run.env_steps, 1000 * np.arange(1, 21))
    np.testing.assert_array_equal(run.episode_return_mean, 10 * np.arange(1, 21))
    np.testing.assert_array_equal(run.evaluation_mean, [52.5, 200])
    np.testing.assert_array_equal(run.evaluation_standard_error, [1.5, np.nan])
    np.testing.assert_array_equal(run.evaluation_wall_seconds, [10, 40])


@pytest.mark.parametrize("x", ["env_steps", "wall_seconds"])
def test_a_picture_of_1000_by_600_is_drawn_with_every_run_in_its_colour(folder, tmp_path, x):
    run = read_run(folder)
    higher = dataclasses.replace(run, label="higher", evaluation_mean=run.evaluation_mean + 50)
    write_picture(curves_figure([run, higher], x=x), tmp_path / "curve.png")
    picture = imageio.imread(tmp_path / "curve.png")
    assert picture.shape[:2] == (600, 1000)
    for color in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):
        assert np.sum(np.all(picture[..., :3] == color, axis=-1)) > 100


@pytest.mark.parametrize(("name", "begins"), [("a.pdf", b"%PDF"), ("a.SVG", b"<?xml")])
def test_papers_get_lines_in_place_of_pixels(folder, tmp_path, name, begins):
    written = []
    for again in range(2):
        write_picture(curves_figure([read_run(folder)]), tmp_path / f"{again}{name}")
        written.append((tmp_path / f"{again}{name}").read_bytes())
    assert written[0].startswith(begins)
    assert written[0] == written[1], "the same figure gives the same bytes"


def test_plotting_leaves_pyplot_alone(folder, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)  # another test's may be
    write_picture(curves_figure([read_run(folder)]), tmp_path / "curve.png")
    assert "matplotlib.pyplot" not in sys.modules


def test_a_run_without_evaluations_and_with_one_update_is_drawn(folder, tmp_path):
    (folder / "evaluations.csv").unlink()
    (folder / "metrics.csv").write_text(METRICS + "1,1000,2.0,10.0,\n")
    write_picture(curves_figure([read_run(folder, label="one")]), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5_000


def test_half_a_row_at_the_end_of_a_run_that_goes_on_is_left_out(folder):
    with (folder / "metrics.csv").open("a") as file:
        file.write("21,21000,4")
    assert read_run(folder).env_steps.size == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (METRICS, "no updates yet"),
        ("", "no updates yet"),
        ("update,env_steps\n1,2\n", "lacks the columns wall_seconds, episode_return_mean"),
        (METRICS + "1,1000,2.0,ten,\n", r"line 2, episode_return_mean: 'ten' is not a number"),
    ],
)
def test_what_cannot_be_plotted_is_named(folder, text, message):
    (folder / "metrics.csv").write_text(text)
    with pytest.raises((ValueError, RunError), match=message):
        read_run(folder)


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*metrics\.csv: No such file"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match="no runs"):
        curves_figure([])
