"""A goal counts where the next evaluation held it, whatever its sign."""

from typing import Any

import pytest
from benchmark_scripts import load_script


@pytest.fixture(scope="module")
def goals() -> Any:
    return load_script("learning", "goals")


@pytest.mark.parametrize(
    ("means", "goal", "met"),
    [
        ([900, 1000, 899, 1000, 900], 1000.0, 3),
        ([1000, 899, 1000], 1000.0, None),
        ([-199, -221, -200, -220, -100], -200.0, 2),
        ([-201, -150, -190], -200.0, 1),
        ([], -200.0, None),
    ],
)
def test_a_goal_is_met_where_the_next_evaluation_is_short_of_it_by_a_tenth_at_most(
    goals: Any, means: list[int], goal: float, met: int | None
):
    rows = [{"mean": str(mean), "env_steps": str(at)} for at, mean in enumerate(means)]
    found = goals.reached(rows, goal)
    assert (None if found is None else int(found["env_steps"])) == met
