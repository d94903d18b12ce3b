"""Policies against a plain forward pass; heads; a user's module."""

import numpy as np
import pytest

from drumline import seeding
from drumline.policies.heads import Head, action_function, parse_bins
from drumline.policies.mlp import MLPPolicy
from drumline.policies.spec import PolicySpec, build_policy, initial_parameters

BOUNDED = Head("continuous", low=(-1.0, -2.0), high=(1.0, 2.0), shape=(2,))


def test_the_forward_pass_is_the_plain_one():
    rng = seeding.generator(0, "test")
    policy = MLPPolicy(PolicySpec(3, BOUNDED, hidden=(5, 4)))
    vector = rng.standard_normal(policy.parameter_count).astype(np.float32)
    mean, inverse_std = rng.standard_normal(3), rng.uniform(0.5, 2.0, 3)
    policy.load_vector(vector)
    policy.load_moments(mean, inverse_std)
    observation = rng.standard_normal(3) * 3
    h, place = np.clip((observation - mean) * inverse_std, -5, 5), 0
    for number, (a, b) in enumerate([(3, 5), (5, 4), (4, 2)]):
        weights = vector[place : place + a * b].reshape(a, b)
        bias = vector[place + a * b : place + a * b + b]
        place += a * b + b
        h = h @ weights + bias
        h = np.tanh(h) if number < 2 else h
    assert place == policy.parameter_count
    assert np.allclose(policy.output(observation), h, atol=1e-5)


def test_initial_columns_have_norm_1_and_a_hundredth_at_the_output():
    spec = PolicySpec(6, BOUNDED, hidden=(5,))
    vector = initial_parameters(spec, seeding.generator(0, "test"))
    first, last = vector[:35].reshape(7, 5), vector[35:].reshape(6, 2)
    assert np.allclose(np.linalg.norm(first[:-1], axis=0), 1.0, atol=1e-6)
    assert np.allclose(np.linalg.norm(last[:-1], axis=0), 0.01, atol=1e-6)
    assert not first[-1].any()


def test_continuous_actions_are_clipped_to_the_space():
    act = action_function(BOUNDED)
    assert act(np.array([3.0, -0.5], np.float32), None).tolist() == [1.0, -0.5]
    noise = np.array([0.25, -9.0], np.float32)
    assert act(np.array([0.5, 0.0], np.float32), noise).tolist() == [0.75, -2.0]


def test_bins_pick_the_highest_score_of_each_component():
    head = Head("bins", low=(-1.0, 0.0), high=(1.0, 4.0), shape=(2,), bins=parse_bins("uniform:3"))
    assert head.output_size == 6
    scores = np.array([0, 0, 1, 0, 1, 0], np.float32)
    assert action_function(head)(scores, None).tolist() == [1.0, 2.0]
    for wrong in ("uniform:1", "custom:0,1", "custom:-1,x,1", "ten"):
        with pytest.raises(ValueError, match="--action-bins"):
            parse_bins(wrong)


def test_discrete_actions_start_where_the_space_does():
    act = action_function(Head("discrete", choices=3, start=5))
    assert act(np.array([0.0, 2.0, 1.0], np.float32), None) == 6


def test_a_torch_module_is_a_policy_whose_vector_is_its_parameters():
    spec = PolicySpec(3, BOUNDED, module="torch_policies:Linear", normalize=False)
    policy = build_policy(spec)
    vector = initial_parameters(spec, seeding.generator(0, "test"))
    assert vector.tobytes() == initial_parameters(spec, seeding.generator(0, "test")).tobytes()
    policy.load_vector(vector)
    observation = np.array([0.5, -1.0, 2.0])
    hidden = np.tanh(vector[:24].reshape(8, 3) @ observation + vector[24:32])
    expected = vector[32:48].reshape(2, 8) @ hidden + vector[48:]
    assert np.allclose(policy.output(observation), expected, atol=1e-5)


def test_a_module_whose_output_does_not_fit_is_refused_with_both_shapes():
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(1, 2\)"):
        build_policy(PolicySpec(3, BOUNDED, module="torch_policies:WrongShape"))
