"""Numbers of the environment's `info` in evaluations: files, displays, commands."""

from pathlib import Path
from typing import Any

import pytest

import drumline
from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.recipes.a2c import A2C
from drumline.recipes.es import ES
from drumline.training.layout import SearchLayout

SMALL: dict[str, Any] = {"evaluate_episodes": 2, "engine": "gymnasium"}
SEARCH = ES(
    env="told_environment:Reaching",
    total_steps=120,
    population_size=4,
    hidden=(2,),
    noise_table_size=1 << 12,
    evaluate_every=2,
    **SMALL,
)
ROLLOUTS = A2C(
    env="told_environment:Reaching",
    total_steps=64,
    num_envs=4,
    alpha=4,
    hidden=(2,),
    evaluate_every=2,
    **SMALL,
)


def rows_of(folder: Path) -> list[list[str]]:
    header, *rows = (folder / "info.csv").read_text().splitlines()
    assert header == "update,name,mean"
    return [row.split(",") for row in rows]


@pytest.mark.parametrize("config", [SEARCH, ROLLOUTS], ids=["es", "a2c"])
def test_each_evaluation_has_its_means_whatever_the_layout(tmp_path: Path, config: Any):
    run = train(config, workers="inline", out=tmp_path / "run")
    rows = rows_of(run.path)
    evaluations = (run.path / "evaluations.csv").read_text().splitlines()[1:]
    assert [row[0] for row in rows if row[1] == "is_success"] == [
        line.split(",")[0] for line in evaluations
    ]
    assert {row[1] for row in rows} == {"is_success", "steps_left"}
    other = train(config, workers=2, out=tmp_path / "other")
    assert (other.path / "info.csv").read_bytes() == (run.path / "info.csv").read_bytes()


def test_a_resumed_run_has_each_row_once(tmp_path: Path):
    whole = train(SEARCH, workers="inline", out=tmp_path / "whole")
    train(SEARCH, workers="inline", out=tmp_path / "run", last_update=4)
    folder = drumline.load(tmp_path / "run").folder
    resume(folder, SearchLayout(pool="inline"), trust=TRUSTED)
    assert (folder.path / "info.csv").read_bytes() == (whole.path / "info.csv").read_bytes()


def test_a_run_of_an_environment_that_tells_nothing_has_no_such_file(tmp_path: Path):
    config = ES(env="CartPole-v1", total_steps=50, population_size=2, hidden=(2,))
    run = train(config, workers="inline", out=tmp_path / "run")
    assert not (run.path / "info.csv").exists()
