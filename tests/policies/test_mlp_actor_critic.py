"""The NumPy forward pass of an actor-critic MLP against the same network in torch."""

import numpy as np
import pytest
import torch

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import build_network, initial_parameters
from drumline.policies.mlp_actor_critic import MLPInference
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.vector import FlatParameters

HEADS = [
    ActionHead("categorical", (3,)),
    ActionHead("multi-discrete", (2, 4)),
    ActionHead("gaussian", (6,)),
]


def network(head: ActionHead, normalize: bool = False) -> tuple[NetworkSpec, np.ndarray]:
    spec = NetworkSpec((17,), "<f8", head, hidden=(32, 16), normalize=normalize)
    rng = np.random.default_rng(0)
    size = initial_parameters(spec, 0).size
    return spec, (rng.standard_normal(size) * 0.3).astype(np.float32)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
@pytest.mark.parametrize("normalize", [False, True])
def test_numpy_and_torch_read_one_vector_alike(head: ActionHead, normalize: bool):
    spec, vector = network(head, normalize)
    rng = np.random.default_rng(1)
    observations = rng.standard_normal((9, 17)) * 3.0
    moments = {
        "observation_mean": rng.standard_normal(17),
        "observation_inverse_std": rng.uniform(0.2, 2.0, 17),
    }
    inference = MLPInference(spec)
    inference.load({"parameters": vector, **moments})
    outputs, values = inference(observations)
    rows = observations
    if normalize:
        shifted = observations - moments["observation_mean"]
        rows = np.clip(shifted * moments["observation_inverse_std"], -10.0, 10.0)
    flat = FlatParameters(build_network(spec))
    flat.load(vector)
    with torch.no_grad():
        expected = flat.module(torch.from_numpy(rows.astype(np.float32)))
    np.testing.assert_allclose(outputs, expected[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(values, expected[1].numpy(), atol=1e-5)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_a_row_has_the_same_bits_in_every_batch(head: ActionHead):
    spec, vector = network(head)
    inference = MLPInference(spec)
    inference.load({"parameters": vector})
    observations = np.random.default_rng(2).standard_normal((130, 17))
    outputs, values = (part.copy() for part in inference(observations))
    for size in (*range(1, 20), 32, 33, 64, 100):
        for start in (0, 1, 130 - size):
            rows = slice(start, start + size)
            some_outputs, some_values = inference(observations[rows])
            assert some_outputs.tobytes() == outputs[rows].tobytes()
            assert some_values.tobytes() == values[rows].tobytes()


def test_a_vector_of_another_size_is_refused():
    spec, vector = network(HEADS[0])
    with pytest.raises(ValueError, match=f"has {vector.size} parameters, got {vector.size + 1}"):
        MLPInference(spec).load({"parameters": np.append(vector, np.float32(0.0))})
