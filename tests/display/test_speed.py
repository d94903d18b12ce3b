"""Measured speed beside the bound from a run's own pieces."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import drumline
from drumline.display import report
from drumline.display.report import ReportedRun
from drumline.display.speed import Speed, speed_of
from drumline.recipes.methods import with_late_settings
from drumline.runs.folder import RunFolder
from drumline.training.layout import RotationLayout

OLD = Path(__file__).parents[1] / "v0_1_folders"

METRICS = """update,env_steps,wall_seconds,policy_lag,policy_lag_max,gradient_step_lag
1,64,0.5,0.0,0.0,0.0
2,128,1.0,1.0,1.0,4.0
3,192,1.6,1.0,1.0,8.0
"""
PROCESSES = """role,index,pid,tasks,progress,busy_seconds,restarts
executor,0,1,3,96,0.8,0
executor,1,2,3,96,0.4,0
actor,0,3,48,192,0.3,0
evaluator,0,5,9,99,7.0,0
learner,0,4,3,3,0.96,0
"""
SMALL = drumline.HTS(
    env="CartPole-v1",
    engine="gymnasium",
    total_steps=32,
    num_envs=2,
    alpha=8,
    epochs=1,
    minibatches=2,
    hidden=(4,),
    evaluate_every=0,
    evaluate_episodes=1,
)
HTS: dict[str, Any] = {"learner": "ppo", "num_envs": 4, "alpha": 16, "minibatches": 8, "lag": 1}


def recorded(path: Path, metrics: str = METRICS, processes: str = PROCESSES) -> RunFolder:
    folder = RunFolder.create(path, method="hts", env_id="Env", seed=0, document={"config": HTS})
    folder.metrics_csv.write_text(metrics)
    if processes:
        folder.processes_csv.write_text(processes)
    return folder


def found(folder: RunFolder, method: str = "hts", **changed: Any) -> Speed:
    speed = speed_of(folder, {"method": method, "config": {**HTS, **changed}})
    assert speed is not None
    return speed


def test_the_busiest_role_bounds_the_speed_of_what_overlaps(tmp_path: Path):
    speed = found(recorded(tmp_path / "run"))
    assert speed.measured == pytest.approx(192 / 1.6)
    assert speed.bound == "learner"
    assert speed.predicted == pytest.approx(192 / 0.96)  # two executors work 0.6 s each
    assert (speed.policy_lag, speed.policy_lag_max) == (pytest.approx(2 / 3), 1.0)
    assert speed.gradient_step_lag == pytest.approx(4.0)
    assert (speed.update_rows, speed.minibatch_rows, speed.forward_rows) == (64, 8, 4.0)


def test_only_the_latest_session_counts(tmp_path: Path):
    head, *rows = PROCESSES.splitlines(keepends=True)
    before = "executor,0,9,0,2560,90.0,0\nexecutor,1,9,0,2560,90.0,1\nlearner,0,9,2,2,80.0,0\n"
    once = found(recorded(tmp_path / "once"))
    resumed = found(recorded(tmp_path / "resumed", processes=head + before + "".join(rows)))
    assert resumed._replace(measured=once.measured) == once
    assert resumed.measured == pytest.approx(64 / 0.6)  # the update after the second


def test_a_run_that_went_back_counts_whole(tmp_path: Path):
    head, *rows = PROCESSES.splitlines(keepends=True)
    before = "executor,0,9,0,2560,90.0,0\nlearner,0,9,70,70,80.0,0\n"
    speed = found(recorded(tmp_path / "run", processes=head + before + "".join(rows)))
    assert speed.measured == pytest.approx(192 / 1.6)


@pytest.mark.parametrize("pool", ["inline", "process"])
def test_a_run_counts_the_rows_of_its_forward_passes(
    tmp_path: Path, pool: Literal["inline", "process"]
):
    config = replace(SMALL, total_steps=64, num_envs=4)
    layout = RotationLayout(pool=pool, executors=1, actors=1)
    run = drumline.train(config, layout=layout, out=tmp_path / "run", progress=False)
    speed = speed_of(run.folder, run.folder.document)
    assert speed is not None
    assert 1.0 <= speed.forward_rows <= 4.0


def test_a_session_ends_with_the_learners_own_row(tmp_path: Path):
    run = drumline.train(SMALL, workers="inline", out=tmp_path / "run")
    first = run.folder.processes_csv.read_text()
    run.resume(workers="inline", total_steps=96, progress=False)
    second = run.folder.processes_csv.read_text().removeprefix(first)
    for session in (first.partition("\n")[2], second):
        assert session.splitlines()[-1].startswith("learner,0,")
        assert session.count("learner,0,") == 1


@pytest.mark.parametrize(("method", "lag"), [("ppo", 1), ("hts", 0)])
def test_what_takes_turns_adds_up(tmp_path: Path, method: str, lag: int):
    speed = found(recorded(tmp_path / "run"), method, lag=lag)
    assert speed.predicted == pytest.approx(192 / (0.6 + 0.3 + 0.96))


def test_what_the_files_do_not_say_is_nan_and_other_methods_have_none(tmp_path: Path):
    speed = found(recorded(tmp_path / "run", processes=""), learner="a2c")
    assert math.isnan(speed.predicted)
    assert math.isnan(speed.forward_rows)
    assert speed.minibatch_rows == 0
    other = recorded(tmp_path / "es", "update,env_steps,wall_seconds\n1,2,3\n")
    assert speed_of(other, {"method": "es", "config": {}}) is None
    assert speed_of(recorded(tmp_path / "new", METRICS.split("1,")[0]), {"config": HTS}) is None


def test_the_page_has_a_row_for_a_run_with_lag_and_none_for_others():
    folders = [RunFolder.open(OLD / name) for name in ("hts", "es")]
    runs = [ReportedRun(folder, with_late_settings(folder.document), ()) for folder in folders]
    table = report._speed(runs)
    assert table.count("<tr>") == 2
    assert "<td>learner</td>" in table or "<td>executor</td>" in table
    assert not report._speed(runs[1:])
