import pytest

from drumline.functional.layout_speed import (
    StepCosts,
    overlapped_speed,
    pool_speed,
    sequential_speed,
)

COSTS = StepCosts(environment=3.0, forward=1.0, learner=2.0)


def test_a_pool_grows_with_its_workers_up_to_the_cores():
    assert [pool_speed(COSTS, w, 2).env_steps_per_second for w in (1, 2, 4)] == [0.25, 0.5, 0.5]


def test_overlap_is_bound_by_its_slowest_part():
    assert overlapped_speed(COSTS, 1, 8) == (1, 0.25, "environment")
    assert overlapped_speed(COSTS, 4, 8) == (4, 0.5, "learner")
    assert overlapped_speed(COSTS, 2, 2).bottleneck == "cores"


def test_in_turn_the_parts_add_up():
    assert sequential_speed(COSTS, 3, 8).env_steps_per_second == pytest.approx(1 / 4)
