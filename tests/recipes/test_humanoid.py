"""Humanoid's actions end at 0.4: a bound that is rounded anywhere would leave it lying still."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases

from drumline.api.run import load, train
from drumline.buffers.replay import ReplayShape
from drumline.buffers.replay_archive import blocks_in
from drumline.recipes.methods import find_method
from drumline.runs.segments import segments_there

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

BOUND, OBSERVED, JOINTS = np.float32(0.4), 348, 17
SMALL = {"replay_size": 2_000, "batch_size": 16, "hidden": (16,), "evaluate_episodes": 1}
TOLD: dict[str, dict[str, Any]] = {
    "td3": {"random_steps": 100, "steps_per_update": 100},
    "aes": {"warmup_steps": 100, "mean_evaluations": 1},
    "cem-rl": {
        "warmup_steps": 100,
        "mean_evaluations": 1,
        "population_size": 4,
        "elites": 2,
        "refined_members": 2,
    },
    "erl": {"warmup_steps": 100, "mean_evaluations": 1, "population_size": 4},
}


@pytest.mark.parametrize("name", cases(TOLD, quick=["td3", "cem-rl"]))
def test_every_joint_is_moved_as_far_as_it_may_be_and_no_further(name: str, tmp_path: Path):
    method, env = find_method(name), "Humanoid-v5"
    config = method.config(
        env=env, **{**method.preset(env), **SMALL, **TOLD[name], "total_steps": 400}
    )
    layout = method.layout(pool="inline", tensorboard=False)
    run = train(config, layout=layout, out=tmp_path / "run")
    shape = ReplayShape(2_000, OBSERVED, JOINTS, 1, 1)
    data = b"".join((run.path / segment).read_bytes() for segment in segments_there(run.folder))
    blocks = list(blocks_in(data, 0, shape))
    actions = np.concatenate([block.actions for block in blocks])
    assert len(actions) >= 300
    acted = actions[100:]  # the random ones are before
    assert np.abs(actions).max() <= BOUND
    assert (np.abs(acted).max(axis=0) > 0.1).all(), "every joint"
    assert len(np.unique(acted)) > 0.5 * acted.size, "not a few values only"
    policy = load(run.path).policy
    action = policy.act(blocks[-1].observations[-1])
    assert action.shape == (JOINTS,)
    assert 0.0 < np.abs(action).max() <= BOUND
