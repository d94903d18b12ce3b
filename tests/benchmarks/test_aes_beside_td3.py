"""AES-RL's time beside TD3's: what is counted as gradient steps of its actors."""

import pytest
from benchmark_scripts import load_script

from drumline.functional.virtual_costs import GradientRate


def test_steps_of_actors_are_those_of_the_individuals_and_not_the_critics():
    beside = load_script("throughput", "aes_beside_td3")
    costs = {"env_step_cost": 125_000, "gradient_overhead_cost": 750_000, "multiply_add_cost": 30}
    config = {"concurrency": 2, "batch_size": 256, **costs}
    step = GradientRate(750_000, 30).step(beside.work_of("Hopper-v5", 256).actor)
    events = [
        {"worker": 0, "start": 0, "end": 40 * 125_000, "env_steps": 40},
        {"worker": 1, "start": 7, "end": 7 + 30 * 125_000 + 12 * step, "env_steps": 30},
        {"worker": 0, "start": 9, "end": 9 + 10 * 125_000 + 3 * step, "env_steps": 10},
        {"worker": 2, "start": 0, "end": 1_000 * step, "env_steps": 0},  # the critic
    ]
    assert beside.actor_steps(events, config, "Hopper-v5") == pytest.approx(15.0)
