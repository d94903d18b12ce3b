"""The actor that gradient steps can follow, and the spaces that have none."""

import re

import gymnasium
import numpy as np
import pytest
from impure_environment import Counting

from drumline.recipes.learned_actor import learned_head

LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-np.inf, np.inf, np.float32),
        (-np.inf, 1.0, np.float32),
        (-LARGEST, LARGEST, np.float32),  # the width is beyond float32
        (0.0, 1e300, np.float64),
    ],
)
def test_actions_without_bounds_are_refused_with_a_wrapper_that_helps(
    low: float, high: float, dtype: type
):
    env = Counting()
    env.action_space = gymnasium.spaces.Box(low, high, (1,), dtype)
    with pytest.raises(ValueError, match="actions without bounds") as caught:
        learned_head(env.action_space, "Some-v0")
    advice = re.search(r"gymnasium\.wrappers\.TransformAction\(.*\)", str(caught.value))
    assert advice
    wrapped = eval(advice[0], {"gymnasium": gymnasium, "env": env})
    head = learned_head(wrapped.action_space, "Some-v0")
    assert (head.low, head.high) == ((-1.0,), (1.0,))
    wrapped.reset(seed=0)
    wrapped.step(np.ones(1, np.float32))
