"""Parameters and gradients of a module as views of flat vectors."""

import numpy as np
import pytest
import torch
from torch import nn

from drumline.policies.vector import FlatParameters


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 4), nn.Linear(4, 1))


def test_the_vector_is_the_parameters_in_the_order_of_their_registration():
    module = network()
    expected = torch.cat([parameter.detach().ravel() for parameter in module.parameters()])
    flat = FlatParameters(module)
    assert torch.equal(flat.values, expected)
    assert flat.values.dtype == torch.float32
    assert [parameter.shape for parameter in module.parameters()] == [
        parameter.shape for parameter in network().parameters()
    ]


def test_loading_sets_the_module_and_keeps_its_own_copy():
    module = network()
    flat = FlatParameters(module)
    vector = np.random.default_rng(0).standard_normal(flat.values.numel())
    flat.load(vector)
    read = torch.cat([parameter.detach().ravel() for parameter in module.parameters()])
    assert read.numpy().tobytes() == vector.astype(np.float32).tobytes()
    vector[:] = 0.0
    assert (flat.values != 0.0).all()


def test_a_read_only_vector_may_be_loaded():
    flat = FlatParameters(network())
    vector = np.ones(flat.values.numel(), np.float32)
    vector.flags.writeable = False
    flat.load(vector)
    assert (flat.values == 1.0).all()


def test_a_step_on_the_vector_moves_the_module():
    module = network()
    flat = FlatParameters(module)
    flat.values.zero_()
    assert not module(torch.ones(3, 2, 3, 3)).any()


def test_a_parameter_of_two_names_is_one_on_another_device_too():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    flat = FlatParameters(module, device=torch.device("meta"))
    assert module[1].weight is module[0].weight
    assert module[1].weight.device.type == flat.values.device.type == "meta"
    assert flat.values.numel() == 4 * 4 + 4 + 4


@pytest.mark.parametrize("passes", [1, 3])
def test_gradients_land_in_the_flat_vector_and_add_up(passes: int):
    plain, module = network(), network()
    flat = FlatParameters(module)
    flat.load(np.concatenate([p.detach().numpy().ravel() for p in plain.parameters()]))
    inputs = torch.linspace(-1, 1, 5 * 18).reshape(5, 2, 3, 3)
    for _ in range(passes):
        for part in (plain, module):
            part(inputs).square().sum().backward()
    grads = [parameter.grad for parameter in plain.parameters()]
    expected = torch.cat([grad.ravel() for grad in grads if grad is not None])
    assert torch.allclose(flat.gradient, expected, rtol=1e-5, atol=1e-6)
    flat.gradient.zero_()
    assert all(p.grad is not None and not p.grad.any() for p in module.parameters())


@pytest.mark.parametrize("shape", [(3,), (1, 58), ()])
def test_a_vector_of_another_shape_is_refused(shape: tuple[int, ...]):
    flat = FlatParameters(network())
    before = flat.values.clone()
    with pytest.raises(ValueError, match=f"this network has {before.numel()} parameters, got "):
        flat.load(np.zeros(shape, np.float32))
    assert torch.equal(flat.values, before)
