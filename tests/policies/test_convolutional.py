"""Networks on images against torch's layers in float64, virtual batch normalisation included."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from drumline.policies.build import build_policy, initial_parameters
from drumline.policies.convolutional import (
    EPSILON,
    NETWORKS,
    ConvolutionalPolicy,
    layer_shapes,
    parameter_count,
)
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec

HEAD = Head("discrete", choices=5)
SPEC = PolicySpec(0, HEAD, normalize=False, convolutions="a3c-cnn", image=(2, 36, 36))
CASES = [
    SPEC,
    replace(SPEC, virtual_batch=11),
    replace(SPEC, convolutions="nature-cnn", image=(4, 84, 84), virtual_batch=3),
    replace(SPEC, image=(3, 45, 38), virtual_batch=9),
    replace(SPEC, image=(1, 41, 43)),
]


def frames_of(spec: PolicySpec, count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *spec.image), dtype=np.uint8)


def parameters_of(spec: PolicySpec, seed: int = 0) -> np.ndarray:
    """Initial parameters that were perturbed, so that scales, shifts and biases count."""
    rng = np.random.default_rng(seed)
    initial = initial_parameters(spec, rng)
    return initial + rng.standard_normal(initial.size).astype(np.float32) * np.float32(0.1)


def plain_outputs(spec: PolicySpec, vector: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Outputs of `images`, the first frames of which are the reference batch, by torch."""
    numbers = torch.from_numpy(vector).double()
    used = 0

    def taken(*shape: int) -> Tensor:
        nonlocal used
        size = int(np.prod(shape))
        used += size
        return numbers[used - size : used].reshape(shape)

    layers = NETWORKS[spec.convolutions].convolutions
    x = torch.from_numpy(images).double() / 255.0
    shapes = layer_shapes(spec)
    for number, shape in enumerate(shapes):
        weights = taken(shape.inputs, shape.outputs)
        if number < len(layers):
            _, kernel, stride = layers[number]
            filters = weights.reshape(kernel, kernel, -1, shape.outputs).permute(3, 2, 0, 1)
            x = functional.conv2d(x, filters, stride=stride)
        else:
            x = (x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x) @ weights
        last = number == len(shapes) - 1
        if last or not spec.virtual_batch:
            bias = taken(shape.outputs)
            x = x + (bias[:, None, None] if x.ndim == 4 else bias)
        else:
            scale, shift = taken(shape.outputs), taken(shape.outputs)
            batch = x[: spec.virtual_batch]
            # What nn.BatchNorm computes of the batch in training.
            mean, var = torch.zeros(shape.outputs).double(), torch.ones(shape.outputs).double()
            functional.batch_norm(batch, mean, var, training=True, momentum=1.0)
            rows = batch.numel() / shape.outputs
            var *= (rows - 1) / rows  # running variances of torch are unbiased
            x = functional.batch_norm(x, mean, var, scale, shift, eps=EPSILON)
        if not last:
            x = torch.relu(x)
    assert used == numbers.numel() == parameter_count(spec)
    return x.numpy()


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_outputs_are_those_of_torchs_layers_normalised_by_the_batch(spec: PolicySpec):
    vector, reference = parameters_of(spec), frames_of(spec, spec.virtual_batch)
    seen = frames_of(spec, 3, seed=6)
    policy = built(spec, reference)
    policy.load_vector(vector)
    outputs = np.stack([policy.output(image).copy() for image in seen])
    expected = plain_outputs(spec, vector, np.concatenate([reference, seen]))[len(reference) :]
    assert outputs == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert np.ptp(outputs, axis=0).min() > 1e-3  # the images matter


@pytest.mark.parametrize("spec", CASES, ids=repr)
def test_a_torch_module_has_the_same_outputs(spec: PolicySpec):
    vector, reference = parameters_of(spec), frames_of(spec, spec.virtual_batch)
    policy = built(spec, reference)
    policy.load_vector(vector)
    seen = frames_of(spec, 4, seed=6)
    module = torch_policy(spec, vector, None, reference if spec.virtual_batch else None)
    outputs = np.stack([policy.output(image).copy() for image in seen])
    assert module.outputs(torch.from_numpy(seen)).numpy() == pytest.approx(outputs, abs=1e-4)


def test_outputs_follow_from_the_parameters_and_not_from_those_before():
    spec = CASES[1]
    policy = built(spec, frames_of(spec, spec.virtual_batch))
    image = frames_of(spec, 1)[0]
    first, other = parameters_of(spec), parameters_of(spec, seed=1)

    def bits(vector: np.ndarray) -> bytes:
        policy.load_vector(vector)
        return policy.output(image).tobytes()

    one = bits(first)
    assert bits(other) != one
    assert bits(first) == one
    policy.vector[:] = other
    policy.loaded()
    assert policy.output(image).tobytes() == bits(other)


def test_parameters_begin_with_columns_of_norm_1_and_scales_of_1():
    spec = CASES[1]
    vector = initial_parameters(spec, np.random.default_rng(0))
    shapes, start = layer_shapes(spec), 0
    for number, shape in enumerate(shapes):
        size = shape.inputs * shape.outputs
        weights = vector[start : start + size].reshape(shape.inputs, shape.outputs)
        last = number == len(shapes) - 1
        norms = np.linalg.norm(weights, axis=0)
        assert norms == pytest.approx(0.01 if last else 1.0, rel=1e-5)
        start += size
        if not last:
            assert (vector[start : start + shape.outputs] == 1.0).all()
            start += shape.outputs
        assert not vector[start : start + shape.outputs].any()
        start += shape.outputs
    assert start == vector.size


def test_images_that_are_too_small_are_refused():
    with pytest.raises(ValueError, match=r"needs larger images than \[4, 36, 20\]"):
        layer_shapes(replace(SPEC, convolutions="nature-cnn", image=(4, 36, 20)))


def built(spec: PolicySpec, reference: np.ndarray) -> ConvolutionalPolicy:
    policy = build_policy(spec)
    assert isinstance(policy, ConvolutionalPolicy)
    if spec.virtual_batch:
        policy.load_reference(reference)
    return policy
