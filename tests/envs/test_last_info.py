"""Numbers that environments tell at the end of an episode."""

from typing import Any

import numpy as np
import pytest

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.last_info import MOST, means, numbers_of
from drumline.envs.make import make_environment


def test_finite_numbers_are_kept_by_name_and_nothing_else():
    info: dict[Any, Any] = {
        "is_success": True,
        "distance": np.float32(0.5),
        "count": np.array([3]),
        "nothing": None,
        "text": "3",
        "many": np.zeros(2),
        "nan": float("nan"),
        "state": 3**700,
        "nested": {"a": 1.0},
        "elapsed_step": 9,
        "a,b\n": 1.0,
        7: 1.0,
    }
    assert numbers_of(object(), info) == (("count", 3.0), ("distance", 0.5), ("is_success", 1.0))


def test_an_environment_with_hundreds_of_numbers_fills_no_file():
    info = {f"n{number:03d}": number for number in range(500)}
    found = numbers_of(object(), info)
    assert found == tuple((f"n{number:03d}", float(number)) for number in range(MOST))


def test_a_mean_counts_the_episodes_that_have_the_number():
    assert means([(("b", 3.0), ("a", 1.0)), (("a", 2.0),), ()]) == (("a", 1.5), ("b", 3.0))
    assert means([]) == ()


@pytest.mark.parametrize("frame_skip", [1, 2])
def test_a_task_with_lean_steps_tells_what_gymnasiums_steps_tell(frame_skip: int):
    import gymnasium

    made = make_environment(EnvironmentSpec("HalfCheetah-v5", frame_skip=frame_skip))
    plain = gymnasium.make("HalfCheetah-v5")
    made.environment.reset(seed=3)
    plain.reset(seed=3)
    action, info, told = np.full(6, 0.3, np.float32), {}, {}
    for _ in range(5):
        *_, info = made.environment.step(action)
        for _ in range(frame_skip):
            *_, told = plain.step(action)
    numbers = numbers_of(made.environment, info)
    assert numbers == numbers_of(plain, told)
    assert {"x_position", "reward_ctrl"} <= dict(numbers).keys()
    made.close()
    plain.close()
