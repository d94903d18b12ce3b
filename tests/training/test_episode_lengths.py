"""`--max-episode-steps` bounds every episode, of training and of evaluations, in every method."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import drumline
from drumline.recipes.aes import AES
from drumline.recipes.cem import CEM
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.recipes.methods import METHODS, with_late_fields
from drumline.recipes.td3 import TD3
from drumline.runs.metrics import read_evaluations
from drumline.runs.tables import read_table

LONGEST = 7
SMALL = {"hidden": (4,), "evaluate_every": 1, "evaluate_episodes": 2, "total_steps": 60}
REPLAY = {**SMALL, "replay_size": 60, "batch_size": 4}
CONFIGS: dict[str, Any] = {
    "es": ES("CartPole-v1", **SMALL, population_size=4, noise_table_size=4096),
    "cem": CEM("CartPole-v1", **SMALL, population_size=4, elites=2),
    "aes": AES("CartPole-v1", **REPLAY, warmup_steps=20),
    "td3": TD3("CartPole-v1", **REPLAY, steps_per_update=20, random_steps=20),
    "hts": HTS("CartPole-v1", **{**SMALL, "total_steps": 64}, num_envs=4, alpha=4, minibatches=1),
}


def lengths(run: Any) -> tuple[set[int], set[int]]:
    """Return the lengths of a run's episodes of training and of evaluations."""
    table = read_table(run.folder.path / "episodes.csv")
    training = {int(row[0]) for row in table.values(("length",), (int,))}
    evaluations = read_evaluations(run.folder.evaluations_csv)
    return training, {length for row in evaluations for length in row.lengths}


@pytest.mark.parametrize("method", CONFIGS)
def test_an_environment_without_an_end_gets_one(method: str, tmp_path: Path):
    config = replace(CONFIGS[method], env="impure_environment:Endless", max_episode_steps=LONGEST)
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert lengths(run) == ({LONGEST}, {LONGEST})
    trusted = drumline.load(run.path, trust_code=True)
    assert trusted.evaluate(2).lengths == (LONGEST, LONGEST)


@pytest.mark.parametrize("workers", ["inline", 3])
def test_a_bound_is_config_and_its_bits_are_those_of_any_layout(workers: Any, tmp_path: Path):
    config = replace(CONFIGS["es"], env="impure_environment:Endless", max_episode_steps=LONGEST)
    run = drumline.train(config, workers=workers, out=tmp_path / "run")
    again = drumline.train(config, workers="inline", out=tmp_path / "again")
    name = "fingerprints.csv"
    assert (run.path / name).read_bytes() == (again.path / name).read_bytes()
    longer = replace(config, max_episode_steps=LONGEST + 1)
    other = drumline.train(longer, workers="inline", out=tmp_path / "other")
    assert (other.path / name).read_bytes() != (run.path / name).read_bytes()


def test_the_bound_replaces_that_of_the_environment_itself(tmp_path: Path):
    config = replace(CONFIGS["es"], env="impure_environment:limited", max_episode_steps=13)
    assert lengths(drumline.train(config, workers="inline", out=tmp_path / "run")) == ({13}, {13})


def test_the_bound_counts_env_steps_where_frames_are_skipped(tmp_path: Path):
    config = replace(CONFIGS["td3"], env="impure_environment:Endless", max_episode_steps=LONGEST)
    run = drumline.train(replace(config, frame_skip=3), workers="inline", out=tmp_path / "run")
    assert lengths(run) == ({LONGEST}, {LONGEST})


def test_envpools_episodes_are_cut(tmp_path: Path):
    config = replace(CONFIGS["hts"], env="Pendulum-v1", max_episode_steps=LONGEST, engine="envpool")
    run = drumline.train(config, workers="inline", out=tmp_path / "run")
    assert lengths(run) == ({LONGEST}, {LONGEST})


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_bound_and_reads_older_runs(method: str):
    config: Any = METHODS[method].config
    assert config(env="CartPole-v1").max_episode_steps == 0
    assert with_late_fields(method, {"env": "CartPole-v1"})["max_episode_steps"] == 0
    with pytest.raises(ValueError, match=r"^--max-episode-steps must be 0 or more, got -1$"):
        config(env="CartPole-v1", max_episode_steps=-1)
