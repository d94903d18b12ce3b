"""TensorBoard reads the run's file: metrics in groups, and evaluations."""

from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import drumline
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.runs.metrics import read_evaluations
from drumline.runs.own_files import TENSORBOARD_FILE

SMALL = {"hidden": (4,), "evaluate_every": 1, "evaluate_episodes": 2}
CONFIGS: dict[str, Any] = {
    "es": ES("CartPole-v1", **SMALL, total_steps=200, population_size=4, noise_table_size=4096),
    "hts": HTS("CartPole-v1", **SMALL, total_steps=192, num_envs=4, alpha=16, minibatches=1),
}


def read(path: Path) -> dict[str, dict[int, float]]:
    """Tag → step → value, as TensorBoard's own reader finds them."""
    found: dict[str, dict[int, float]] = {}
    for event in EventFileLoader(str(path / TENSORBOARD_FILE)).Load():
        for value in event.summary.value:
            number = value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
            found.setdefault(value.tag, {})[event.step] = number
    return found


@pytest.mark.parametrize("method", CONFIGS)
def test_evaluations_are_there_and_every_tag_has_a_group(method: str, tmp_path: Path):
    run = drumline.train(CONFIGS[method], workers="inline", out=tmp_path / "run")
    found = read(run.path)
    assert {tag.partition("/")[0] for tag in found} == {"rollout", "train", "eval", "time"}
    rows = {row.env_steps: row for row in read_evaluations(run.folder.evaluations_csv)}
    assert found["eval/return_mean"] == pytest.approx({n: r.mean for n, r in rows.items()})
    assert found["eval/return_max"] == pytest.approx({n: max(r.returns) for n, r in rows.items()})
    assert found["eval/env_steps"] == pytest.approx({n: r.env_steps for n, r in rows.items()})
    assert len(rows) > 1
    metrics = {int(row["env_steps"]): row["update_seconds"] for row in run.metrics}
    assert found["time/update_seconds"] == pytest.approx(metrics)
    assert {"rollout/episode_return_mean", "train/gradient_norm"} <= set(found)


def test_a_resumed_run_has_each_evaluation_once(tmp_path: Path):
    run = drumline.train(CONFIGS["es"], workers="inline", out=tmp_path / "run")
    again = run.resume(workers="inline", total_steps=400)
    rows = read_evaluations(again.folder.evaluations_csv)
    assert set(read(again.path)["eval/return_mean"]) == {row.env_steps for row in rows}


def test_a_run_of_0_1_keeps_its_axis_of_updates(tmp_path: Path):
    run = drumline.train(CONFIGS["es"], workers="inline", out=tmp_path / "run")
    run.folder.update_document(drumline="0.1.0")
    again = run.resume(workers="inline", total_steps=400)
    newest = again.metrics[-1]
    assert int(newest["update"]) in read(again.path)["rollout/episode_return_mean"]
    assert int(newest["env_steps"]) not in read(again.path)["rollout/episode_return_mean"]
