"""`--evaluate-max-steps` bounds the episodes of evaluations, and those alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import drumline
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import METHODS, with_late_fields
from drumline.recipes.td3 import TD3
from drumline.runs.metrics import read_evaluations

LONGEST = 3
SMALL = {"env": "CartPole-v1", "hidden": (4,), "evaluate_every": 1, "evaluate_episodes": 2}
REPLAY = {**SMALL, "total_steps": 60, "replay_size": 60, "batch_size": 4}
CONFIGS: dict[str, Any] = {
    "es": ES(**SMALL, total_steps=60, population_size=4, noise_table_size=4096),
    "aes": AES(**REPLAY, warmup_steps=20),
    "td3": TD3(**REPLAY, steps_per_update=20, random_steps=20),
    "hts": HTS(**SMALL, total_steps=64, num_envs=4, alpha=4, minibatches=1, engine="gymnasium"),
}


@pytest.mark.parametrize("method", CONFIGS)
def test_every_episode_of_an_evaluation_is_cut_and_none_of_training(method: str, tmp_path: Path):
    free = drumline.train(CONFIGS[method], workers="inline", out=tmp_path / "free")
    bounded = replace(CONFIGS[method], evaluate_max_steps=LONGEST)
    run = drumline.train(bounded, workers="inline", out=tmp_path / "bounded")
    rows = read_evaluations(run.folder.evaluations_csv)
    assert {length for row in rows for length in row.lengths} == {LONGEST}
    assert min(min(row.lengths) for row in read_evaluations(free.folder.evaluations_csv)) > LONGEST
    for name in ("fingerprints.csv", "episodes.csv"):
        assert (run.path / name).read_bytes() == (free.path / name).read_bytes()
    assert run.evaluate(2).lengths == (LONGEST, LONGEST)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_bound_refuses_a_negative_one_and_reads_older_runs(method: str):
    config: Any = METHODS[method].config
    assert config(env="CartPole-v1").evaluate_max_steps == 0
    assert with_late_fields(method, {"env": "CartPole-v1"})["evaluate_max_steps"] == 0
    with pytest.raises(ValueError, match=r"^--evaluate-max-steps must be 0 or more, got -1$"):
        config(env="CartPole-v1", evaluate_max_steps=-1)
