"""Evaluations beside training go on while it waits, and fail at the same place in any layout."""

from pathlib import Path
from typing import Any

import pytest
from campaigns import FAULTS
from training.evaluation_environments import marked
from whole_runs import run_on

from drumline.errors import WorkerError
from drumline.recipes.a2c import A2C
from drumline.recipes.aes import AES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.runs.checkpoint import checkpoint_numbers
from drumline.runs.folder import RunFolder
from drumline.training.evaluations import scheduled_tasks

ROTATION: dict[str, Any] = {
    "env": "training.evaluation_environments:Awaited",
    "total_steps": 120,
    "num_envs": 4,
    "alpha": 5,
    "minibatches": 1,
    "hidden": (4,),
    "evaluate_every": 2,
    "evaluate_episodes": 12,
}
AWAITED: dict[str, Any] = {
    "hts": HTS(**ROTATION, learners=2),
    "a2c": A2C(**{name: ROTATION[name] for name in ROTATION if name != "minibatches"}),
    "aes": AES(
        objective="training.evaluation_environments:awaited_value",
        dimensions=6,
        total_steps=24,
        p_desired=0.0,
        concurrency=2,
        mean_evaluations=0,
        evaluate_every=4,
        evaluate_episodes=12,
        promise=False,
    ),
}
STEP = {"hts": 2 * 5 + 1, "a2c": 2 * 5 + 1, "aes": 4 + 2 + 1}
"""The step, or the call, of training that waits: it cannot be before the evaluation has begun."""


def train(out: Path, config: Any, **layout: Any) -> Path:
    return run_on(out, config, method_of(config).layout(**layout, tensorboard=False)).path


@pytest.mark.parametrize(
    ("method", "layout"),
    [
        ("hts", {"workers": 2}),
        ("aes", {"workers": 2}),
        pytest.param("a2c", {"workers": 2}, marks=FAULTS),
        pytest.param("hts", {"workers": 2, "nodes": 2}, marks=FAULTS),
    ],
)
def test_all_episodes_of_an_evaluation_run_while_training_waits(
    method: str, layout: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """There are more of them than leases of the evaluators, one of which is killed."""
    config, marks = AWAITED[method], tmp_path / "marks"
    monkeypatch.delenv("AWAITED", raising=False)
    alone = train(tmp_path / "alone", config, pool="inline")
    seeds = ",".join(str(task.seed) for task in scheduled_tasks(config, config.evaluate_every))
    monkeypatch.setenv("AWAITED", f"{marks}:{seeds}:{STEP[method]}")
    run = train(tmp_path / "run", config, **layout)
    assert marked(marks, "evaluated") == 12
    assert (tmp_path / "killed").exists() is (method != "aes")
    for name in ("evaluations.csv", "fingerprints.csv"):
        assert (run / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.parametrize("layout", [{"pool": "inline"}, {"workers": 2}])
def test_an_episode_that_fails_beside_training_ends_the_run_where_its_evaluation_is_recorded(
    layout: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = HTS(**{**ROTATION, "env": "impure_environment:Collapsing"})
    monkeypatch.setenv("COLLAPSE_SEED", str(scheduled_tasks(config, 2)[0].seed))
    with pytest.raises(WorkerError, match="fell off the table") as failure:
        train(tmp_path / "run", config, **layout)
    assert "it was evaluation episode 0 of update 2" in "".join(failure.value.__notes__)
    last = checkpoint_numbers(RunFolder.open(tmp_path / "run"))[-1]
    assert last == 4, "it is recorded where the next one is due"
