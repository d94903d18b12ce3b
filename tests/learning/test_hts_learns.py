"""HTS-RL learns: goals met at a scheduled evaluation and held at the next one (DESIGN §9)."""

from dataclasses import replace
from pathlib import Path

import pytest
from learning.held_goals import median_reached

from drumline.recipes.hts import HTS

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
    config = replace(HTS(env=env, **HTS.PRESETS.get(env, {})), **changes)
    assert median_reached(config, goal, tmp_path, workers=1) <= budget
