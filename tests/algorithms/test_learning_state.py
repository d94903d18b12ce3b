"""Learned state of A2C and PPO: saved, taken over, and untouched by values that are not finite."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algorithms.learner_examples import (
    A2C_SETTINGS,
    PPO_SETTINGS,
    Made,
    everything,
    flipped,
    learn,
    parameters_of,
    rollout_of,
    same_state,
    spec_of,
    with_nan,
)

from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.algorithms.torch_optimizers import TorchRMSProp
from drumline.types import State

LEARNERS: dict[str, Any] = {
    "a2c": A2C_SETTINGS,
    "a2c-vtrace": replace(A2C_SETTINGS, correction="vtrace"),
    "ppo": PPO_SETTINGS,
    "ppo-delayed": replace(PPO_SETTINGS, correction="delayed"),
}
TENSORS = [
    "adam_first",
    "adam_second",
    "observation_mean",
    "observation_squares",
    "parameters",
    "reward_mean",
    "reward_returns",
    "reward_squares",
]
COUNTERS = ["gradient_steps", "observation_count", "reward_count"]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_goes_on_from_its_state_bit_for_bit(name: str):
    made, other = everything(LEARNERS[name]), everything(LEARNERS[name], live=9)
    learn(made, range(2))
    learn(other, range(5, 6))
    other.learner.load(made.learner.state())
    assert same_state(other.learner.state(), made.learner.state())
    for one in (made, other):
        learn(one, range(2, 4))
    assert same_state(other.learner.state(), made.learner.state())
    mine, theirs = made.learner.published(), other.learner.published()
    assert sorted(mine) == ["observation_inverse_std", "observation_mean", "parameters"]
    assert all(mine[key].tobytes() == theirs[key].tobytes() for key in mine)


def test_a_state_is_a_copy_and_so_is_what_is_loaded():
    made, other = everything(A2C_SETTINGS), everything(A2C_SETTINGS)
    learn(made, range(1))
    state = made.learner.state()
    before = State({k: v.copy() for k, v in state.tensors.items()}, dict(state.counters))
    other.learner.load(state)
    for one in (made, other):
        learn(one, range(1, 2))
    assert same_state(state, before)


def test_rmsprops_state_is_its_second_moment():
    def made(live: int) -> Made:
        size = len(parameters_of(spec_of(), 0))
        return Made(A2C_SETTINGS, live=live, optimizer=TorchRMSProp(size))

    one, other = made(2), made(3)
    learn(one, range(2))
    state = one.learner.state()
    assert sorted(state.tensors) == ["parameters", "rmsprop_second"]
    other.learner.load(state)
    for learner in (one, other):
        learn(learner, range(2, 4))
    assert same_state(one.learner.state(), other.learner.state())


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("settings", [A2C_SETTINGS, PPO_SETTINGS], ids=["a2c", "ppo"])
def test_every_bit_is_taken_over_and_every_tensor_and_counter_matters(settings: Any):
    made = everything(settings)
    learn(made, range(2))
    state = made.learner.state()
    learn(made, range(2, 3))
    right = made.learner.state()
    assert sorted(state.tensors) == TENSORS
    assert sorted(state.counters) == COUNTERS
    for name in TENSORS:
        other = everything(settings)
        other.learner.load(flipped(state, name))
        assert same_state(other.learner.state(), flipped(state, name))
        assert not same_state(other.learner.state(), state)
    # A last bit of a mean may be rounded away by the next interval, a hundredth may not.
    wrong = {
        name: replace(state, tensors={**state.tensors, name: tensor * 1.01 + 0.01})
        for name, tensor in state.tensors.items()
    }
    for name in COUNTERS:
        wrong[name] = replace(state, counters={**state.counters, name: state.counters[name] + 1})
    for name, one in wrong.items():
        other = everything(settings)
        other.learner.load(one)
        learn(other, range(2, 3))
        assert not same_state(other.learner.state(), right), name


@pytest.mark.parametrize("name", [*TENSORS, *COUNTERS])
def test_a_state_that_lacks_something_is_refused_by_its_name(name: str):
    made = everything(PPO_SETTINGS)
    state = made.learner.state()
    tensors = {key: value for key, value in state.tensors.items() if key != name}
    counters = {key: value for key, value in state.counters.items() if key != name}
    with pytest.raises(ValueError, match=name):
        made.learner.load(State(tensors, counters))


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_another_shape_is_refused(name: str):
    made = everything(PPO_SETTINGS)
    state = made.learner.state()
    longer = np.concatenate([state.tensors[name], state.tensors[name][:1]])
    with pytest.raises(ValueError, match=r"\[\d+\]"):
        made.learner.load(State({**state.tensors, name: longer}, state.counters))


@pytest.mark.parametrize("name", ["a2c", "a2c-vtrace", "ppo", "ppo-delayed"])
def test_a_reward_that_is_no_number_is_named_and_changes_nothing(name: str):
    where = r"the reward of environment \d at step \d of interval 2 is nan"
    made, other = everything(LEARNERS[name]), everything(LEARNERS[name])
    for one in (made, other):
        learn(one, range(2))
    before = made.learner.state()
    behavior = made.behavior(2)
    with pytest.raises(UnfiniteLoss, match=where):
        made.learner.update(with_nan(rollout_of(made.spec, behavior, 2)), behavior)
    assert same_state(made.learner.state(), before)
    for one in (made, other):
        learn(one, range(2, 3))
    assert same_state(made.learner.state(), other.learner.state())


def test_published_parameters_are_the_live_ones_in_place():
    made = everything(A2C_SETTINGS)
    published = made.learner.published()["parameters"]
    learn(made, range(1))
    assert published.tobytes() == made.parameters.tobytes()
    assert torch.from_numpy(published).data_ptr() == made.network.live.values.data_ptr()
