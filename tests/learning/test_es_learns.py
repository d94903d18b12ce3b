"""OpenAI-ES learns within the published budget (spec §3.1; v1 environment there, v5 here)."""

import statistics
from dataclasses import replace

import numpy as np
import pytest

from drumline.commands.run import train
from drumline.recipes.es import ES, preset

pytestmark = pytest.mark.slow


@pytest.mark.timeout(1800)
def test_inverted_pendulum_is_solved_within_the_published_budget(tmp_path):
    config = ES(env="InvertedPendulum-v5", **preset("InvertedPendulum-v5"))
    config = replace(config, total_steps=455_000, evaluate_every=2)
    reached = []
    for seed in (0, 1, 2):
        run = train(replace(config, seed=seed), workers=2, out=tmp_path / str(seed))
        rows = np.genfromtxt(run.folder.evaluations_csv, delimiter=",", names=True, usecols=(1, 3))
        means = rows["mean"]
        held = [i for i in range(len(means) - 1) if means[i] >= 1000 and means[i + 1] >= 900]
        reached.append(rows["env_steps"][held[0]] if held else np.inf)
    assert statistics.median(reached) <= 455_000
