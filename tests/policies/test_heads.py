"""From raw outputs to actions."""

import pickle
from typing import Literal

import numpy as np
import pytest
from gymnasium.spaces import Box

from drumline.policies.heads import Head, action_function, parse_bins, stored_action_function


def outputs(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


BOUNDED = Head("continuous", low=(-1.0, 0.0), high=(1.0, 2.0), shape=(2,))


def test_continuous_actions_are_clipped_to_the_space():
    act = action_function(BOUNDED)
    assert act(outputs(-3.0, 1.5), None).tolist() == [-1.0, 1.5]
    assert act(outputs(0.5, 9.0), None).tolist() == [0.5, 2.0]


def test_action_noise_is_added_before_the_clip():
    act = action_function(BOUNDED)
    assert act(outputs(0.75, 1.0), outputs(0.5, 0.25)).tolist() == [1.0, 1.25]


@pytest.mark.parametrize("bound", [np.inf, float(np.finfo(np.float64).max)])
def test_an_unbounded_space_clips_nothing(bound: float):
    act = action_function(Head("continuous", low=(-bound,), high=(bound,), shape=(1,)))
    assert act(outputs(1e6), None).tolist() == [1e6]


def test_an_action_has_the_shape_and_dtype_of_the_space():
    head = Head("continuous", low=(-1.0,) * 4, high=(1.0,) * 4, shape=(2, 2), dtype="<f8")
    action = action_function(head)(outputs(1, 2, -3, 0), None)
    assert action.dtype == np.float64
    assert action.tolist() == [[1.0, 1.0], [-1.0, 0.0]]


def test_an_action_never_shares_memory_with_the_output():
    for head in (BOUNDED, Head("continuous", (-1.0,) * 2, (1.0,) * 2, (1, 2))):
        buffer = outputs(0.1, 0.2)
        assert not np.shares_memory(action_function(head)(buffer, None), buffer)


def test_bins_choose_the_highest_of_each_component_scaled_to_the_space():
    head = Head("bins", low=(-1.0, 0.0), high=(1.0, 4.0), shape=(2,), bins=parse_bins("uniform:3"))
    assert head.output_size == 6
    assert head.action_size == 2
    act = action_function(head)
    assert act(outputs(0, 0, 9, 0, 1, 0), None).tolist() == [1.0, 2.0]
    assert act(outputs(5, 0, 0, 0, 0, 1), None).tolist() == [-1.0, 4.0]
    assert act(outputs(0, 0, 9, 0, 1, 0), outputs(0.5, 0.5)).tolist() == [1.0, 2.5]


def test_discrete_actions_are_integers_from_the_spaces_start():
    head = Head("discrete", choices=3, start=-1)
    assert (head.output_size, head.action_size) == (3, 1)
    action = action_function(head)(outputs(0.0, 0.5, 0.25), None)
    assert action == 0
    assert type(action) is int


def test_bins_are_parsed():
    assert parse_bins("continuous") == ()
    assert parse_bins("uniform:5") == (-1.0, -0.5, 0.0, 0.5, 1.0)
    assert parse_bins("custom:-1,0.25,1") == (-1.0, 0.25, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        *("uniform:1", "uniform:x", "ten", ""),
        *("custom:-1,2", "custom:0,1", "custom:1,-1", "custom:-1,a,1", "custom:"),
    ],
)
def test_bins_that_are_none_are_named(text: str):
    with pytest.raises(ValueError, match="--action-bins"):
        parse_bins(text)


def test_squashed_actions_are_tanh_scaled_to_the_bounds():
    head = Head("squashed", (-0.4, 0.0), (0.4, 1.0), (2,))
    action = action_function(head)(outputs(0.5, -30.0), None)
    np.testing.assert_allclose(action, [0.4 * np.tanh(0.5), 0.0], rtol=1e-6)
    assert action.dtype == np.float32


def test_noise_on_squashed_actions_stays_within_the_bounds():
    head = Head("squashed", (-0.4, 0.0), (0.4, 1.0), (2,))
    action = action_function(head)(outputs(30.0, 0.0), outputs(0.3, -0.2))
    np.testing.assert_allclose(action, [0.4, 0.3], rtol=1e-6)


def test_unbounded_actions_cannot_be_squashed():
    with pytest.raises(ValueError, match="unbounded"):
        action_function(Head("squashed", (-np.inf,), (np.inf,), (1,)))


GAUSSIAN = Head("squashed-gaussian", (-2.0, 0.0), (2.0, 1.0), (2,))


def test_a_squashed_gaussian_acts_greedily_with_tanh_of_its_means():
    assert (GAUSSIAN.output_size, GAUSSIAN.action_size) == (4, 2)
    action = action_function(GAUSSIAN)(outputs(0.5, -1.0, 3.0, 3.0), None)
    np.testing.assert_allclose(action, [2 * np.tanh(0.5), 0.5 + 0.5 * np.tanh(-1.0)], rtol=1e-6)
    assert action.dtype == np.float32


def test_the_noise_of_a_squashed_gaussian_counts_its_own_stds():
    noise = outputs(0.25, -0.5)
    action = action_function(GAUSSIAN)(outputs(0.5, -1.0, np.log(0.5), np.log(2.0)), noise)
    expected = [2 * np.tanh(0.5 + 0.5 * 0.25), 0.5 + 0.5 * np.tanh(-1.0 - 2.0 * 0.5)]
    np.testing.assert_allclose(action, expected, rtol=1e-6)
    assert noise.tolist() == [0.25, -0.5]


def test_log_stds_of_a_squashed_gaussian_are_clipped():
    act, noise = action_function(GAUSSIAN), outputs(0.1, 1.0)
    action = act(outputs(0.0, 0.0, 99.0, -99.0), noise)
    np.testing.assert_allclose(action, [2 * np.tanh(0.1 * np.exp(2.0)), 0.5], rtol=1e-6)


def test_an_output_is_the_same_after_a_squashed_gaussian_acted():
    raw = outputs(0.5, -1.0, 0.0, 0.0)
    action_function(GAUSSIAN)(raw, outputs(1.0, 1.0))
    assert raw.tolist() == [0.5, -1.0, 0.0, 0.0]


def test_the_unit_of_noise_is_the_policys_own_std_or_half_the_action_range():
    assert GAUSSIAN.noise_scale(1.0).tolist() == [1.0, 1.0]
    squashed = Head("squashed", GAUSSIAN.low, GAUSSIAN.high, (2,))
    assert squashed.noise_scale(0.5).tolist() == [1.0, 0.25]


def test_a_head_pickles():
    assert pickle.loads(pickle.dumps(BOUNDED)) == BOUNDED


@pytest.mark.parametrize("kind", ["squashed", "squashed-gaussian", "bins"])
def test_no_bound_that_is_not_symmetric_is_overstepped_by_rounding(kind: Literal["squashed"]):
    low, high = np.float32([-3.0, -2.9]), np.float32([-0.1, 0.3])
    assert np.any((high + low) / 2 + (high - low) / 2 > high)
    assert np.any(low + (high - low) > high)
    bounds = tuple(low.tolist()), tuple(high.tolist())
    head = Head(kind, *bounds, (2,), bins=parse_bins("uniform:2"))
    space = Box(low, high)
    for sign in (1, -1):
        raw = outputs(50 * sign, 50 * sign)
        raw = np.stack([-raw, raw], 1).ravel() if kind == "bins" else raw
        raw = np.concatenate([raw, raw]) if kind == "squashed-gaussian" else raw
        action = action_function(head)(raw, None)
        assert space.contains(action)
        np.testing.assert_allclose(action, high if sign > 0 else low, rtol=1e-6)


@pytest.mark.parametrize("kind", ["continuous", "squashed", "bins"])
def test_no_bound_in_double_precision_is_overstepped_by_rounding(kind: Literal["continuous"]):
    head = Head(kind, (-0.1, -0.3), (0.1, 0.3), (2,), "<f8", parse_bins("uniform:3"))
    outputs_of = {"bins": outputs(0, 0, 1, 1, 0, 0)}
    action = action_function(head)(outputs_of.get(kind, outputs(50, -50)), None)
    assert action.tolist() == [0.1, -0.3]
    stored = stored_action_function(head)(action.astype(np.float32))
    assert stored.tolist() == [0.1, -0.3]
