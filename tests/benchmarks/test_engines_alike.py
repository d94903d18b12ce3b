"""Random play tells tasks that are the same in both engines from tasks that are not."""

from typing import Any

import numpy as np
import pytest
from benchmark_scripts import load_script

pytest.importorskip("envpool")


@pytest.fixture(scope="module")
def engines() -> Any:
    return load_script("learning", "engines_alike")


def apart(row: dict[str, str]) -> list[float]:
    return [float(row[name]) for name in row if name.endswith("errors_apart") and row[name]]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5", "Walker2d-v5"])
def test_tasks_of_both_engines_are_the_same(engines: Any, env_id: str):
    row = engines.row(env_id, 16, 250, 0)
    assert row["env_steps"] == 4000
    assert max(apart(row)) < 4


def test_other_rewards_lengths_and_starts_are_far_apart(engines: Any):
    hopper = engines.play("Hopper-v5", "envpool", 16, 250, 0)
    walker = engines.play("Walker2d-v5", "gymnasium", 16, 250, 0)
    assert engines.errors_apart(hopper.rewards, walker.rewards) > 10
    shifted = hopper.first + np.r_[2e-3, np.zeros(10)]
    assert engines.errors_apart(hopper.first, shifted)[0] > 4
    assert engines.errors_apart(hopper.lengths, 2 * hopper.lengths) > 10


def test_samples_that_do_not_vary_are_the_same_or_infinitely_far_apart(engines: Any):
    one = np.ones(4)
    assert engines.errors_apart(one, one) == 0
    assert engines.errors_apart(one, one + 1) == np.inf
