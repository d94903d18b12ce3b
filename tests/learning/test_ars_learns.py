"""ARS reaches TRPO's final score on Swimmer within OpenAI-ES's budget (spec §3.1; v5 here)."""

import statistics
from dataclasses import replace

import numpy as np
import pytest

from drumline.commands.run import train
from drumline.recipes.ars import ARS, preset

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1800)
def test_v1_learns_to_swim_within_the_published_budget(tmp_path):
    config = ARS(env="Swimmer-v5", **preset("Swimmer-v5"))
    config = replace(config, total_steps=300_000, evaluate_every=25)
    reached = []
    for seed in (0, 1, 2):
        run = train(replace(config, seed=seed), workers=2, out=tmp_path / str(seed))
        rows = np.genfromtxt(run.folder.evaluations_csv, delimiter=",", names=True, usecols=(1, 3))
        means = rows["mean"]
        held = [i for i in range(len(means) - 1) if means[i] >= 128.25 and means[i + 1] >= 115.4]
        reached.append(rows["env_steps"][held[0]] if held else np.inf)
    assert statistics.median(reached) <= 300_000
