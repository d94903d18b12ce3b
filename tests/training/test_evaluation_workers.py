"""The episodes of an evaluation are run on as many processes as work in training."""

from pathlib import Path
from typing import Any

import pytest

import drumline
from drumline.recipes.aes import AES
from drumline.recipes.hts import HTS
from drumline.runs.metrics import read_evaluations

SMALL = {"env": "CartPole-v1", "hidden": (4,), "evaluate_every": 2, "evaluate_episodes": 3}
CONFIGS: dict[str, Any] = {
    "aes": AES(**SMALL, total_steps=60, replay_size=60, batch_size=4, warmup_steps=20),
    "hts": HTS(**SMALL, total_steps=64, num_envs=4, alpha=4, minibatches=1, engine="gymnasium"),
}


@pytest.mark.parametrize(("method", "workers", "processes"), [("aes", 2, 2), ("hts", 4, 3)])
def test_all_workers_share_an_evaluation_and_its_rows_have_the_same_bytes(
    tmp_path: Path, method: str, workers: int, processes: int
):
    alone = drumline.train(CONFIGS[method], workers="inline", out=tmp_path / "alone")
    run = drumline.train(CONFIGS[method], workers=workers, out=tmp_path / "shared")
    for name in ("evaluations.csv", "fingerprints.csv"):
        assert (run.path / name).read_bytes() == (alone.path / name).read_bytes()
    rows = [row.split(",") for row in run.folder.processes_csv.read_text().splitlines()[1:]]
    done = [int(row[3]) for row in rows if row[0] == "evaluator"]
    assert len(done) == processes  # no more than there are episodes
    assert sum(done) == 3 * len(read_evaluations(run.folder.evaluations_csv))
