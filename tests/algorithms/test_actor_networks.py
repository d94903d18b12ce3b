"""An actor of the user's own learns what the MLP with the gradient written out learns."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from algorithms.td3_examples import CONTINUOUS, DISCRETE, draws

from drumline.algorithms.actor_networks import OwnNetwork, OwnVector
from drumline.algorithms.td3 import TD3
from drumline.algorithms.td3_steps import TD3Settings
from drumline.policies.spec import PolicySpec
from drumline.types import State


def own(settings: TD3Settings, network: str = "torch_policies:ShapedMLP") -> TD3Settings:
    size, head = settings.observation_size, settings.head
    return replace(settings, actor=PolicySpec(size, head, (), module=network, module_shape=(size,)))


def to_torchs_order(vector: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """A NumPy MLP's parameters, matrices `[inputs + 1, outputs]`, as torch's layers have them."""
    parts, start = [], 0
    for inputs, outputs in pairwise(sizes):
        end = start + (inputs + 1) * outputs
        matrix = vector[start:end].reshape(inputs + 1, outputs)
        parts += [matrix[:-1].T.ravel(), matrix[-1]]
        start = end
    return np.concatenate(parts)


@pytest.mark.parametrize("settings", [CONTINUOUS, DISCRETE], ids=["continuous", "discrete"])
def test_td3_learns_with_a_module_what_it_learns_with_the_same_mlp(settings: TD3Settings):
    settings = replace(settings, actor_hidden=(16,), actor_activation="tanh")
    learner, other = TD3(settings, draws(settings), 0), TD3(own(settings), draws(settings), 0)
    state, sizes = learner.state(), settings.actor_sizes
    for name in ("actor", "target_actor"):
        state.tensors[name] = to_torchs_order(state.tensors[name], sizes)
    other.load(State(state.tensors, state.counters))
    for each in (learner, other):
        each.begin(0)
        for _ in range(40):
            each.learn(60)
    expected = to_torchs_order(learner.actor, sizes)
    assert not np.allclose(expected, state.tensors["actor"], atol=1e-3)
    np.testing.assert_allclose(other.actor, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(other.critics, learner.critics, rtol=1e-3, atol=1e-4)


def test_what_the_outputs_do_not_depend_on_gets_no_gradient():
    spec = PolicySpec(
        4, CONTINUOUS.head, (), module="actor_critic_networks:Plain", module_shape=(4,)
    )
    network = OwnNetwork(spec, "fp32", learns=True)
    count = 16 * 5 + 17 * 2 + 17
    values, gradient = torch.randn(1, count), OwnVector(torch.ones(1, count), spec)
    network.forward(torch.randn(1, 3, 4), OwnVector(values, spec))
    network.backward(torch.ones(1, 3, 2), OwnVector(values, spec), gradient)
    assert not gradient.parts["network.value.weight"].any()
    assert not gradient.parts["network.value.bias"].any()
    assert gradient.parts["network.policy.weight"].all()


def test_bf16_stays_near_fp32():
    spec = own(CONTINUOUS).actor
    assert spec is not None
    count = 16 * 5 + 17 * 2
    values, rows = torch.randn(1, count), torch.randn(1, 6, 4)
    found = []
    for precision in ("fp32", "bf16"):
        network = OwnNetwork(spec, precision, learns=True)
        gradient = OwnVector(torch.zeros(1, count), spec)
        network.forward(rows.to(network.kind), OwnVector(values, spec))
        output_gradient = torch.ones(1, 6, 2, dtype=network.kind)
        network.backward(output_gradient, OwnVector(values, spec), gradient)
        found.append(gradient.values.clone())
    torch.testing.assert_close(found[0], found[1], rtol=0.1, atol=0.1)
    assert not torch.equal(*found)


def test_a_vector_of_another_size_is_refused():
    spec = own(CONTINUOUS).actor
    assert spec is not None
    with pytest.raises(ValueError, match=r"has 114 parameters, got \[1, 3\]"):
        OwnVector(torch.zeros(1, 3), spec)
