"""The MLP backwards against autograd over the torch module of the same network."""

import numpy as np
import pytest
import torch

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import build_network, initial_parameters
from drumline.policies.mlp_gradients import MLPGradients
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.vector import FlatParameters

HEADS = [
    ActionHead("categorical", (3,)),
    ActionHead("multi-discrete", (2, 4)),
    ActionHead("gaussian", (3,)),
]


def spec_of(head: ActionHead, hidden: tuple[int, ...]) -> NetworkSpec:
    return NetworkSpec((5,), "<f4", head, hidden=hidden)


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6), (4, 3, 5)], ids=str)
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_outputs_and_gradients_are_autograds(head: ActionHead, hidden: tuple[int, ...], rows: int):
    spec = spec_of(head, hidden)
    rng = np.random.default_rng(rows)
    flat = FlatParameters(build_network(spec))
    start = initial_parameters(spec, 0)
    flat.load(start + (0.3 * rng.standard_normal(start.size)).astype(np.float32))
    observations = rng.standard_normal((rows, 5)).astype(np.float32)
    d_outputs = rng.standard_normal((rows, head.output_size)).astype(np.float32)
    d_values = rng.standard_normal(rows).astype(np.float32)
    outputs, values = flat.module(torch.from_numpy(observations))
    loss = (outputs * torch.from_numpy(d_outputs)).sum() + values @ torch.from_numpy(d_values)
    loss.backward()

    gradient = np.full(start.size, np.nan, np.float32)
    passes = MLPGradients(spec, flat.values.numpy(), gradient)
    for _ in range(2):  # what the first pass has left behind must not matter
        found, estimates = passes.forward(observations)
        assert found == pytest.approx(outputs.detach().numpy(), abs=1e-5)
        assert estimates == pytest.approx(values.detach().numpy(), abs=1e-5)
        passes.backward(d_outputs, d_values)
        assert gradient == pytest.approx(flat.gradient.numpy(), abs=1e-4, rel=1e-4)


def test_batches_of_other_sizes_in_between_change_no_bit():
    spec = spec_of(HEADS[2], (8, 6))
    rng = np.random.default_rng(0)
    parameters = initial_parameters(spec, 1)
    gradient = np.zeros_like(parameters)
    passes = MLPGradients(spec, parameters, gradient)
    rows = rng.standard_normal((9, 5)).astype(np.float32)
    outputs = rng.standard_normal((9, 6)).astype(np.float32)
    passes.forward(rows)
    passes.backward(outputs, outputs[:, 0])
    before = gradient.tobytes()
    passes.forward(rows[:4])
    passes.backward(outputs[:4], outputs[:4, 0])
    passes.forward(rows)
    passes.backward(outputs, outputs[:, 0])
    assert gradient.tobytes() == before


def test_a_vector_of_another_size_and_another_network_are_refused():
    spec = spec_of(HEADS[0], (8,))
    size = initial_parameters(spec, 0).size
    with pytest.raises(ValueError, match=f"this network has {size} parameters, got {size + 1}"):
        MLPGradients(spec, np.zeros(size + 1, np.float32), np.zeros(size + 1, np.float32))
    images = NetworkSpec((4, 84, 84), "|u1", HEADS[0], network="nature-cnn")
    with pytest.raises(ValueError, match="nature-cnn has no gradient in NumPy"):
        MLPGradients(images, np.zeros(9, np.float32), np.zeros(9, np.float32))
