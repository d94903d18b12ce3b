"""Environments that use torch have one thread for it, in every process: a sum over two differs."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import drumline
from drumline.functional.torch_threads import one_torch_thread
from drumline.recipes.a2c import A2C
from drumline.recipes.aes import AES
from drumline.recipes.es import ES
from drumline.recipes.ppo import PPO
from drumline.recipes.td3 import TD3

ENV: dict[str, Any] = {"env": "training.threads_environment:Threads", "evaluate_episodes": 2}
SEARCH: dict[str, Any] = {"population_size": 4, "noise_table_size": 1 << 12, "hidden": (4,)}
ROLLOUTS: dict[str, Any] = {"total_steps": 80, "num_envs": 2, "alpha": 10, "hidden": (4,)}
REPLAY: dict[str, Any] = {"replay_size": 60, "batch_size": 4, "hidden": (4,)}
CONFIGS: dict[str, Any] = {
    "es": ES(**ENV, **SEARCH, total_steps=60, evaluate_every=2),
    "es, a reference batch": ES(
        **ENV, **SEARCH, total_steps=60, evaluate_every=2, normalization="virtual-batch"
    ),
    "aes": AES(
        **ENV, **REPLAY, total_steps=80, warmup_steps=20, critic_batches=10, evaluate_every=4
    ),
    "td3": TD3(**ENV, **REPLAY, total_steps=60, random_steps=20, steps_per_update=15),
    "ppo": PPO(**ENV, **ROLLOUTS, epochs=2, minibatches=2, learner_threads=2),
    "a2c": A2C(**ENV, **ROLLOUTS, learner_threads=2),
}


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", CONFIGS)
def test_every_step_in_the_drivers_process_has_one_thread(name: str, tmp_path: Path):
    run = drumline.train(CONFIGS[name], workers="inline", out=tmp_path / "run")
    returns = [float(row["episode_return"]) for row in rows_of(run.path / "episodes.csv")]
    assert len(returns) > 3
    assert set(returns) == {5.0}
    assert run.evaluate(episodes=2).mean == 5.0


@pytest.mark.usefixtures("two_threads")
def test_other_work_has_its_threads_back():
    with one_torch_thread():
        assert torch.get_num_threads() == 1
        with one_torch_thread():
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
