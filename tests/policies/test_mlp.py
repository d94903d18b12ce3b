"""The NumPy network against plain matrix products."""

from itertools import pairwise

import numpy as np
import pytest

from drumline.policies.build import build_policy, initial_parameters
from drumline.policies.heads import Head
from drumline.policies.initial_layers import Initialization
from drumline.policies.mlp import MLPPolicy, initial_vector, layer_shapes, uniform_vector
from drumline.policies.spec import PolicySpec

HEAD = Head("continuous", low=(-10.0,) * 3, high=(10.0,) * 3, shape=(3,))
SPECS = [
    PolicySpec(5, HEAD, hidden=(8, 4)),
    PolicySpec(5, HEAD, hidden=(8,), bias=False),
    PolicySpec(5, HEAD, hidden=()),
    PolicySpec(5, HEAD, hidden=(), bias=False, normalize=False),
]


def layers_of(spec: PolicySpec, vector: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights `[inputs, outputs]` and biases of each layer, in float64."""
    sizes = [spec.observation_size, *spec.hidden, spec.head.output_size]
    layers, start = [], 0
    for inputs, outputs in pairwise(sizes):
        weights = vector[start : start + inputs * outputs].reshape(inputs, outputs)
        start += inputs * outputs
        bias = vector[start : start + outputs] if spec.bias else np.zeros(outputs)
        start += outputs if spec.bias else 0
        layers.append((weights.astype(np.float64), bias.astype(np.float64)))
    assert start == vector.size
    return layers


@pytest.mark.parametrize("spec", SPECS)
def test_the_output_is_the_plain_forward_pass(spec: PolicySpec):
    rng = np.random.default_rng(0)
    policy = MLPPolicy(spec)
    vector = rng.standard_normal(policy.parameter_count).astype(np.float32) * np.float32(0.3)
    mean, inverse_std = rng.standard_normal(5), rng.uniform(0.5, 3.0, 5)
    policy.load_vector(vector)
    policy.load_moments(mean, inverse_std)
    for scale in (1.0, 100.0):
        observation = rng.standard_normal(5) * scale
        x = np.clip((observation - mean) * inverse_std, -5, 5) if spec.normalize else observation
        layers = layers_of(spec, vector)
        for weights, bias in layers[:-1]:
            x = np.tanh(x @ weights + bias)
        expected = x @ layers[-1][0] + layers[-1][1]
        assert policy.output(observation) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_columns_start_with_norm_1_and_the_output_with_norm_a_hundredth():
    spec = SPECS[0]
    layers = layers_of(spec, initial_vector(spec, np.random.default_rng(0)))
    for number, (weights, bias) in enumerate(layers):
        norm = 0.01 if number == len(layers) - 1 else 1.0
        assert np.linalg.norm(weights, axis=0) == pytest.approx(norm, rel=1e-5)
        assert not bias.any()


def test_orthogonal_layers_start_with_orthonormal_columns_or_rows():
    spec, rule = SPECS[0], Initialization("orthogonal", output_scale=0.5)
    layers = layers_of(spec, initial_vector(spec, np.random.default_rng(0), rule))
    for number, (weights, bias) in enumerate(layers):
        scale = 0.5 if number == len(layers) - 1 else 1.0
        few = weights if weights.shape[0] >= weights.shape[1] else weights.T
        np.testing.assert_allclose(few.T @ few, scale**2 * np.eye(few.shape[1]), atol=1e-5)
        assert not bias.any()


def test_uniform_layers_start_within_one_over_the_root_of_their_inputs():
    spec = PolicySpec(100, HEAD, hidden=(400,))
    layers = layers_of(
        spec, initial_vector(spec, np.random.default_rng(0), Initialization("uniform"))
    )
    for weights, bias in layers:
        bound = 1.0 / np.sqrt(weights.shape[0])
        assert np.abs(weights).max() <= bound
        assert weights.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
        assert bias.any()
        assert np.abs(bias).max() <= bound


def test_the_output_may_start_at_another_scale():
    spec = SPECS[0]
    plain, louder = (
        layers_of(spec, initial_vector(spec, np.random.default_rng(0), rule))
        for rule in (Initialization(), Initialization(output_scale=1.0))
    )
    np.testing.assert_allclose(louder[-1][0], 100 * plain[-1][0], rtol=1e-5)
    for (weights, _), (same, _) in zip(plain[:-1], louder[:-1], strict=True):
        assert weights.tobytes() == same.tobytes()


@pytest.mark.parametrize("spec", SPECS)
def test_the_initial_vector_fits_and_follows_from_the_generator(spec: PolicySpec):
    first, second = (initial_parameters(spec, np.random.default_rng(1)) for _ in range(2))
    assert first.dtype == np.float32
    assert first.shape == (build_policy(spec).parameter_count,)
    assert first.tobytes() == second.tobytes()
    assert first.size == sum(rows * columns for rows, columns in layer_shapes(spec))


def test_zero_init_starts_at_zero():
    spec = PolicySpec(5, HEAD, hidden=(), bias=False, zero_init=True)
    assert not initial_vector(spec, np.random.default_rng(0)).any()


def test_writing_to_the_vector_sets_the_parameters_and_loading_copies():
    policy = MLPPolicy(SPECS[0])
    ones = np.ones(policy.parameter_count, np.float32)
    policy.load_vector(ones)
    expected = policy.output(np.ones(5)).copy()
    ones[:] = 7.0
    assert policy.output(np.ones(5)).tobytes() == expected.tobytes()
    policy.vector[:] = 0.0
    assert not policy.output(np.ones(5)).any()


def test_an_action_outlives_the_next_one():
    policy = MLPPolicy(SPECS[0])
    policy.load_vector(initial_vector(SPECS[0], np.random.default_rng(0)))
    first = policy.act(np.ones(5))
    assert isinstance(first, np.ndarray)
    before = first.copy()
    policy.act(-np.ones(5))
    assert first.tobytes() == before.tobytes()


def test_observations_of_any_shape_and_dtype_are_flattened():
    policy = MLPPolicy(PolicySpec(6, HEAD, hidden=(4,)))
    policy.load_vector(np.linspace(-1, 1, policy.parameter_count, dtype=np.float32))
    rows = np.arange(6, dtype=np.uint8).reshape(2, 3)
    expected = policy.output(np.arange(6, dtype=np.float64)).copy()
    assert policy.output(rows).tobytes() == expected.tobytes()


def test_hidden_layers_can_be_rectified():
    spec = PolicySpec(5, HEAD, hidden=(8,), normalize=False, activation="relu")
    policy, vector = MLPPolicy(spec), uniform_vector((5, 8, 3), np.random.default_rng(2))
    policy.load_vector(vector)
    observation = np.linspace(-2.0, 2.0, 5)
    (first, bias), (last, last_bias) = layers_of(spec, vector)
    expected = np.maximum(observation @ first + bias, 0.0) @ last + last_bias
    np.testing.assert_allclose(policy.output(observation), expected, rtol=1e-5)


def test_uniform_vectors_lie_within_the_inverse_root_of_the_inputs():
    vector = uniform_vector((400, 50, 2), np.random.default_rng(0))
    hidden, last = vector[: 401 * 50], vector[401 * 50 :]
    for part, inputs in ((hidden, 400), (last, 50)):
        bound = 1.0 / np.sqrt(inputs)
        assert np.abs(part).max() <= bound
        assert np.abs(part).max() > 0.9 * bound
    np.testing.assert_allclose(hidden.std(), 1.0 / np.sqrt(3.0 * 400), rtol=0.02)
