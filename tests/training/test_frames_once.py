"""Frames stored once: a run's bytes are those of a run that stores every stack whole."""

from dataclasses import replace
from pathlib import Path

import pytest
from campaigns import cases

from drumline.api.opened_runs import silent
from drumline.api.run_document import PROMISE, run_document
from drumline.recipes.hts import HTS
from drumline.runs.folder import RunFolder
from drumline.training.layout import RotationLayout
from drumline.training.run_request import RunRequest

FILMED = HTS(
    env="lane_environments:filmed",
    total_steps=640,
    num_envs=4,
    alpha=16,
    epochs=2,
    minibatches=4,
    hidden=(8,),
    truncations_per_interval=16,
    evaluate_every=0,
    evaluate_episodes=1,
)
CASES = {
    "ppo": FILMED,
    "ppo in shards, none": replace(FILMED, learners=2, correction="none"),
    "a2c": replace(FILMED, learner="a2c"),
    "a2c in shards": replace(FILMED, learner="a2c", learners=2, correction="vtrace"),
}


def lasting(out: Path, config: HTS, layout: RotationLayout, stack: int | None) -> list[bytes]:
    recipe = config.build(layout)
    parts = recipe.parts
    assert parts.shape.stack > 1
    if stack is not None:
        parts = replace(parts, shape=replace(parts.shape, stack=stack))
        recipe = replace(recipe, parts=parts)
    folder = RunFolder.create(
        out,
        method="hts",
        env_id=config.env,
        seed=config.seed,
        document=run_document(config, layout, PROMISE),
    )
    recipe.opened(RunRequest(folder, layout, silent())).run()
    names = ("fingerprints.csv", "episodes.csv", "policy-last.safetensors")
    return [(folder.path / name).read_bytes() for name in names]


@pytest.mark.parametrize("name", cases(CASES, quick=["ppo", "a2c in shards"]))
def test_a_run_that_stores_stacks_whole_has_the_same_bytes(tmp_path: Path, name: str):
    config = CASES[name]
    whole = lasting(tmp_path / "whole", config, RotationLayout(pool="inline"), stack=1)
    once = RotationLayout(pool="inline", actors=1)
    assert lasting(tmp_path / "once", config, once, stack=None) == whole
