"""Runs of other kinds go on from a store: replays in segments, environments in journals."""

from pathlib import Path
from typing import Any

import pytest
from whole_runs import SMALL_CEM_RL, lasting_bytes

from drumline.api.run import load, resume, train
from drumline.recipes.hts import HTS
from drumline.recipes.methods import method_of
from drumline.recipes.td3 import TD3
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.stores.fetch import fetched
from drumline.stores.object_store import ObjectStore

CONFIGS: dict[str, Any] = {
    "cem-rl": SMALL_CEM_RL,
    "td3": TD3(
        env="InvertedPendulum-v5",
        total_steps=120,
        random_steps=20,
        steps_per_update=15,
        replay_size=60,
        batch_size=4,
        hidden=(4,),
        evaluate_every=45,
        evaluate_episodes=2,
    ),
    "hts": HTS(
        env="CartPole-v1",
        engine="gymnasium",
        total_steps=240,
        num_envs=2,
        minibatches=2,
        alpha=10,
        hidden=(4,),
        evaluate_every=3,
        evaluate_episodes=2,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_goes_on_from_a_store_with_the_bytes_of_one_that_never_stopped(
    name: str, tmp_path: Path
):
    config, store = CONFIGS[name], ObjectStore(f"file://{tmp_path}/objects")
    layout = method_of(config).layout(pool="inline")
    straight = train(config, layout=layout, out=tmp_path / "straight").folder
    part = train(config, layout=layout, out=tmp_path / "part", last_update=3, store=store.url)
    copy = RunFolder.open(fetched(store, tmp_path / "host"))
    assert lasting_bytes(copy) == lasting_bytes(part.folder)
    resume(copy, layout, store=store.url)
    again = load(fetched(store, tmp_path / "again")).folder
    for resumed in (copy, again):
        assert lasting_bytes(resumed) == lasting_bytes(straight)
        assert read_checkpoint(resumed).fingerprint == read_checkpoint(straight).fingerprint
