"""OpenAI-ES learns within the published budget (spec §3.1; v1 environment there, v5 here)."""

from dataclasses import replace

import pytest
from learning.held_goals import median_reached

from drumline.recipes.es import ES

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1800)
def test_inverted_pendulum_is_solved_within_the_published_budget(tmp_path):
    config = ES(env="InvertedPendulum-v5", **ES.PRESETS.get("InvertedPendulum-v5", {}))
    config = replace(config, total_steps=455_000, evaluate_every=2)
    assert median_reached(config, 1000.0, tmp_path, workers=2) <= 455_000
