"""AES-RL learns both pendulums (DESIGN §9)."""

from pathlib import Path

import pytest
from learning.held_goals import median_reached

from drumline.recipes.aes import AES

pytestmark = pytest.mark.slow


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("env", "goal"), [("InvertedPendulum-v5", 1000.0), ("Pendulum-v1", -200.0)]
)
def test_the_goal_is_met_within_the_budget(tmp_path: Path, env: str, goal: float):
    config = AES(env=env, **{**AES.PRESETS.get(env, {}), "total_steps": 50_000})
    assert median_reached(config, goal, tmp_path, workers=2) <= 50_000
