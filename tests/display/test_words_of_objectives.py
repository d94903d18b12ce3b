"""Axes and rows of runs of an objective."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from display.test_panel import STATE

from drumline.display.comparison import Group, comparison_figure
from drumline.display.panel import rows
from drumline.display.plots import curves_figure
from drumline.display.run_data import RunCurve, read_run
from drumline.runs.problem import ENVIRONMENT, OBJECTIVE


def curve(folder: Path, config: object) -> RunCurve:
    folder.mkdir()
    (folder / "metrics.csv").write_text(
        "update,env_steps,wall_seconds,episode_return_mean\n1,8,0.5,-2.0\n2,16,1.0,-1.0\n"
    )
    (folder / "config.json").write_text(json.dumps({"config": config}))
    return read_run(folder)


def test_axes_name_the_objective(tmp_path: Path):
    own = curve(tmp_path / "own", {"env": "", "objective": "digits:accuracy"})
    axes = curves_figure([own]).axes[0]
    assert axes.get_ylabel() == "objective"
    assert axes.get_xlabel() == "values (one for each seed, in training)"
    left = comparison_figure([Group("own", (own,))]).axes[0]
    assert left.get_ylabel() == "objective (training)"


def test_runs_of_both_kinds_keep_the_words_of_environments(tmp_path: Path):
    own = curve(tmp_path / "own", {"env": "", "objective": "digits:accuracy"})
    other = curve(tmp_path / "other", {"env": "CartPole-v1", "objective": ""})
    assert (own.words, other.words) == (OBJECTIVE, ENVIRONMENT)
    assert curves_figure([own, other]).axes[0].get_ylabel() == "episode return"


@pytest.mark.parametrize("config", [None, 3, [], {"env": 4}, {"objective": ["a"]}])
def test_a_damaged_config_leaves_the_words_of_environments_or_objectives(
    tmp_path: Path, config: object
):
    assert curve(tmp_path / "run", config).words in (ENVIRONMENT, OBJECTIVE)


def test_rows_of_the_dashboard_name_the_objective():
    labels = {row.label for row in rows(replace(STATE, words=OBJECTIVE), 80, 20)}
    assert {"objective", "values"} < labels
    assert not {"return", "env steps"} & labels
