import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drumline
from drumline import seeding


def test_global_generators_are_as_their_own_packages_seed_them():
    seeding.seed_globals(5)
    given = torch.Generator().manual_seed(5)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=given))
    assert np.random.rand() == np.random.RandomState(5).rand()
    assert random.random() == random.Random(5).random()


def test_what_goes_on_around_an_episode_keeps_its_numbers():
    seeding.seed_globals(1)
    drawn = torch.rand(1), np.random.rand(), random.random()
    seeding.seed_globals(1)
    with seeding.kept_globals():
        seeding.seed_globals(9)
    assert (torch.rand(1), np.random.rand(), random.random()) == drawn


ES = drumline.ES(
    env="CartPole-v1",
    total_steps=60,
    population_size=4,
    noise_table_size=4096,
    hidden=(4,),
    evaluate_episodes=1,
)
HTS = drumline.HTS(env="CartPole-v1", total_steps=32, num_envs=2, alpha=8, minibatches=2)
CALLS: dict[str, Callable[[Any], object]] = {
    "train es": lambda run: drumline.train(ES, workers="inline", out=run.path.parent / "es"),
    "train hts": lambda run: drumline.train(HTS, workers="inline", out=run.path.parent / "hts"),
    "evaluate": lambda run: run.evaluate(episodes=1),
    "episode": lambda run: run.episode(0),
    "policy": lambda run: run.policy.act(np.zeros(4, np.float32)),
    "resume": lambda run: run.resume(workers="inline", total_steps=100),
}


def found() -> tuple[Any, ...]:
    """Return the next numbers of the global generators, and torch's threads."""
    with seeding.kept_globals():
        drawn = torch.rand(1).item(), np.random.rand(), random.random()
    return (*drawn, torch.get_num_threads())


@pytest.mark.parametrize("name", CALLS)
def test_a_public_call_leaves_the_callers_generators_and_threads(tmp_path: Path, name: str):
    module = replace(ES, policy="torch_policies:TanhNetwork") if name == "policy" else ES
    run = drumline.train(module, workers="inline", out=tmp_path / "run")
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        before = found()
        CALLS[name](run)
        assert found() == before
    finally:
        torch.set_num_threads(threads)


LATE = """
import sys, drumline
config = drumline.HTS(env="CartPole-v1", total_steps=32, num_envs=2, alpha=8, minibatches=2,
                      engine="gymnasium", hidden=(4,), epochs=1, evaluate_every=0,
                      evaluate_episodes=2)
assert "torch" not in sys.modules
drumline.train(config, workers="inline", out=sys.argv[1])
import torch
print(torch.get_num_threads(), torch.rand(1).item())
"""


def test_a_torch_that_a_call_loads_is_left_as_a_fresh_one(tmp_path: Path):
    fresh, *after = (
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / f"run {number}")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for number, code in enumerate(("import torch; print(torch.get_num_threads())", LATE, LATE))
    )
    assert [threads for threads, _ in after] == fresh * 2
    assert after[0][1] != after[1][1], "a fresh torch draws its seed"
