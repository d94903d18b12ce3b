"""The actor that gradient steps can follow, and the spaces that have none."""

import re

import gymnasium
import numpy as np
import pytest
from impure_environment import Counting

from drumline.recipes.learned_actor import gaussian_head, learned_actor, learned_head
from drumline.recipes.td3 import TD3
from drumline.schedules.single_stream import SingleStreamPlan

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


def test_a_stochastic_policy_puts_out_means_and_log_stds_within_the_bounds():
    config = TD3(env="Pendulum-v1", hidden=(8,))
    actor = learned_actor(config, "relu", head_of=gaussian_head)
    assert actor.sizes == (3, 8, 2)
    assert (actor.policy.head.low, actor.policy.head.high) == ((-2.0,), (2.0,))
    assert learned_actor(config, "relu").sizes == (3, 8, 1)


def test_a_stochastic_policy_refuses_discrete_actions():
    with pytest.raises(ValueError, match="CartPole-v1 has discrete actions"):
        learned_actor(TD3(env="CartPole-v1"), head_of=gaussian_head)


def test_a_streams_replay_has_no_more_rows_than_the_run_has_steps():
    actor = learned_actor(TD3(env="Pendulum-v1"))
    shape = actor.stream_replay(SingleStreamPlan(10, 3, 0), 1_000, 16)
    assert (shape.capacity, shape.slack) == (30, 11)
    assert actor.stream_replay(SingleStreamPlan(10, 3, 0), 20, 16).capacity == 20
    assert actor.stream_replay(SingleStreamPlan(10, 1, 0), 20, 16).capacity == 16
