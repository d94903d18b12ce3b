"""ARS reaches TRPO's final score on Swimmer within OpenAI-ES's budget (spec §3.1; v5 here)."""

from dataclasses import replace

import pytest
from learning.held_goals import median_reached

from drumline.recipes.ars import ARS

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1800)
def test_v1_learns_to_swim_within_the_published_budget(tmp_path):
    config = ARS(env="Swimmer-v5", **ARS.PRESETS.get("Swimmer-v5", {}))
    config = replace(config, total_steps=300_000, evaluate_every=25)
    assert median_reached(config, 128.25, tmp_path, workers=2) <= 300_000
