"""HTS-RL learns: goals met at a scheduled evaluation and held at the next one (DESIGN §9)."""

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drumline.commands.run import train
from drumline.recipes.hts import HTS, preset

pytestmark = pytest.mark.slow

A2C = {"learner": "a2c", "alpha": 5, "total_steps": 500_000, "evaluate_every": 500}
CASES = {
    "ppo": ("CartPole-v1", {"evaluate_every": 25}, 475.0, 100_000),
    "a2c": ("CartPole-v1", A2C, 475.0, 500_000),
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_the_goal_is_met_within_the_budget(tmp_path: Path, name: str):
    env, changes, goal, budget = CASES[name]
    config = replace(HTS(env=env, **preset(env)), **changes)
    reached = []
    for seed in (0, 1, 2):
        run = train(replace(config, seed=seed), workers=1, out=tmp_path / str(seed))
        rows = np.genfromtxt(run.folder.evaluations_csv, delimiter=",", names=True, usecols=(1, 3))
        means = rows["mean"]
        held = [i for i in range(len(means) - 1) if means[i] >= goal and means[i + 1] >= 0.9 * goal]
        reached.append(rows["env_steps"][held[0]] if held else np.inf)
    assert statistics.median(reached) <= budget
