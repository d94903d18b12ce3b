"""MLPs with virtual batch normalisation against torch's batch normalisation in float64."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from drumline.policies.build import build_policy, initial_parameters, tensor_shapes
from drumline.policies.convolutional import EPSILON
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.initial_layers import Initialization
from drumline.policies.spec import PolicySpec
from drumline.policies.virtual_batch_mlp import VirtualBatchMLP, parameter_count

HEAD = Head("discrete", choices=5)
SPEC = PolicySpec(6, HEAD, (8, 7), virtual_batch=20)
CASES = [
    SPEC,
    replace(SPEC, normalize=False),
    replace(SPEC, activation="relu", hidden=(9,)),
    replace(SPEC, virtual_batch=3),
]
Moments = tuple[np.ndarray, np.ndarray]


def observations(spec: PolicySpec, count: int, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((count, spec.observation_size)) * [0.1, 1.0, 30.0, 1.0, 2.0, 0.5]
    return (drawn + 3.0).astype(np.float32)


def moments_of(spec: PolicySpec) -> Moments:
    seen = observations(spec, 50, seed=9).astype(np.float64)
    return seen.mean(axis=0), 1.0 / seen.std(axis=0)


def parameters_of(spec: PolicySpec, seed: int = 0) -> np.ndarray:
    """Initial parameters that were perturbed, so that scales, shifts and biases count."""
    rng = np.random.default_rng(seed)
    initial = initial_parameters(spec, rng)
    return initial + rng.standard_normal(initial.size).astype(np.float32) * np.float32(0.3)


def built(spec: PolicySpec, reference: np.ndarray) -> VirtualBatchMLP:
    policy = build_policy(spec, reference)
    assert isinstance(policy, VirtualBatchMLP)
    return policy


def plain(spec: PolicySpec, vector: np.ndarray) -> nn.Sequential:
    """Torch's layers with the same parameters, in float64."""
    numbers, used = torch.from_numpy(vector).double(), 0
    layers: list[nn.Module] = []
    sizes = list(pairwise((spec.observation_size, *spec.hidden, spec.head.output_size)))
    for number, (inputs, outputs) in enumerate(sizes):
        last = number == len(sizes) - 1
        linear = nn.Linear(inputs, outputs, bias=last).double()
        tensors = [linear.weight]
        layers.append(linear)
        if last:
            tensors.append(linear.bias)
        else:
            normalization = nn.BatchNorm1d(outputs, eps=EPSILON, momentum=1.0).double()
            tensors += [normalization.weight, normalization.bias]
            layers += [normalization, nn.ReLU() if spec.activation == "relu" else nn.Tanh()]
        for tensor in tensors:
            piece = numbers[used : used + tensor.numel()]
            used += tensor.numel()
            shaped = piece.reshape(inputs, outputs).T if tensor is linear.weight else piece
            with torch.no_grad():
                tensor.copy_(shaped)
    assert used == numbers.numel() == parameter_count(spec)
    return nn.Sequential(*layers)


def as_inputs(spec: PolicySpec, seen: np.ndarray, moments: Moments) -> torch.Tensor:
    rows = seen.astype(np.float64)
    if spec.normalize:
        rows = np.clip((rows - moments[0]) * moments[1], -5.0, 5.0)
    return torch.from_numpy(rows)


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_outputs_on_the_batch_are_those_of_batch_normalisation_in_training(spec: PolicySpec):
    vector, moments = parameters_of(spec), moments_of(spec)
    reference = observations(spec, spec.virtual_batch)
    policy = built(spec, reference)
    policy.load_vector(vector)
    policy.load_moments(*moments)
    outputs = np.stack([policy.output(row).copy() for row in reference])
    network = plain(spec, vector).train()
    expected = network(as_inputs(spec, reference, moments)).detach().numpy()
    assert outputs == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert np.ptp(outputs, axis=0).min() > 1e-2


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_other_observations_are_normalised_by_the_statistics_of_the_batch(spec: PolicySpec):
    vector, moments = parameters_of(spec), moments_of(spec)
    reference, seen = observations(spec, spec.virtual_batch), observations(spec, 4, seed=6)
    policy = built(spec, reference)
    policy.load_moments(*moments)
    policy.load_vector(vector)
    outputs = np.stack([policy.output(row).copy() for row in seen])
    network = plain(spec, vector).train()
    network(as_inputs(spec, reference, moments))
    for layer in network:
        if isinstance(layer, nn.BatchNorm1d):  # running variances of torch are unbiased
            assert layer.running_var is not None
            layer.running_var *= (spec.virtual_batch - 1) / spec.virtual_batch
    expected = network.eval()(as_inputs(spec, seen, moments)).detach().numpy()
    assert outputs == pytest.approx(expected, rel=1e-4, abs=1e-5)
    other = built(spec, observations(spec, spec.virtual_batch, seed=7))
    other.load_moments(*moments)
    other.load_vector(vector)
    assert np.abs(other.output(seen[0]) - outputs[0]).max() > 1e-3


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_a_batch_that_arrives_after_the_policy_is_built_counts(spec: PolicySpec):
    """On a node the memory of the batch is there before its numbers are."""
    reference, seen = observations(spec, spec.virtual_batch), observations(spec, 1, seed=6)[0]
    memory = np.zeros_like(reference)
    early, late = built(spec, reference), built(spec, memory)
    memory[:] = reference
    for policy in (early, late):
        policy.load_moments(*moments_of(spec))
        policy.load_vector(parameters_of(spec))
    assert late.output(seen).tobytes() == early.output(seen).tobytes()


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_a_torch_module_has_the_same_outputs(spec: PolicySpec):
    vector, moments = parameters_of(spec), moments_of(spec)
    reference, seen = observations(spec, spec.virtual_batch), observations(spec, 4, seed=6)
    policy = built(spec, reference)
    policy.load_vector(vector)
    policy.load_moments(*moments)
    outputs = np.stack([policy.output(row).copy() for row in seen])
    module = torch_policy(spec, vector, moments, reference)
    assert module.outputs(torch.from_numpy(seen)).numpy() == pytest.approx(outputs, abs=1e-5)


def test_outputs_follow_from_what_is_loaded_and_not_from_what_was():
    policy = built(SPEC, observations(SPEC, SPEC.virtual_batch))
    row, moments = observations(SPEC, 1, seed=6)[0], moments_of(SPEC)
    first, other = parameters_of(SPEC), parameters_of(SPEC, seed=1)

    def bits(vector: np.ndarray, loaded: Moments) -> bytes:
        policy.load_vector(vector)
        policy.load_moments(*loaded)
        return policy.output(row).tobytes()

    one = bits(first, moments)
    assert bits(other, moments) != one
    assert bits(first, (moments[0] + 1.0, moments[1])) != one
    assert bits(first, moments) == one
    policy.vector[:] = other
    policy.loaded()
    assert policy.output(row).tobytes() == bits(other, moments)


@pytest.mark.parametrize("layers", ["column-normalized", "orthogonal", "uniform"])
def test_scales_begin_at_1_and_shifts_at_0_beside_weights_by_the_rule(layers):
    rule = Initialization(layers)
    vector = initial_parameters(SPEC, np.random.default_rng(0), rule)
    shapes = tensor_shapes(SPEC)
    assert shapes == ((6, 8), (16,), (8, 7), (14,), (7, 5), (5,))
    assert vector.dtype == np.float32
    assert vector.size == sum(int(np.prod(shape)) for shape in shapes) == parameter_count(SPEC)
    pieces = np.split(vector, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    for added, outputs in ((pieces[1], 8), (pieces[3], 7)):
        assert (added[:outputs] == 1.0).all()
        assert not added[outputs:].any()
    assert pieces[5].any() == (layers == "uniform")
    norms = np.linalg.norm(pieces[0].reshape(6, 8), axis=0)
    if layers == "column-normalized":
        assert norms == pytest.approx(1.0, rel=1e-5)
    else:
        assert np.abs(norms - 1.0).max() > 1e-3


def test_a_batch_of_one_observation_repeated_keeps_outputs_finite():
    reference = np.repeat(observations(SPEC, 1), SPEC.virtual_batch, axis=0)
    policy = built(SPEC, reference)
    policy.load_vector(parameters_of(SPEC))
    outputs = policy.output(observations(SPEC, 1, seed=6)[0])
    assert np.isfinite(outputs).all()
