"""The policy of an evaluation sees an observation as the lanes of a training store it."""

from typing import Any

import numpy as np
import pytest

from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.build import build_policy
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.mlp_actor_critic import MLPInference
from drumline.policies.network_spec import NetworkSpec


@pytest.mark.parametrize("given", [np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("space", ["<f4", "<f8", "<i8", "|u1"])
def test_a_policy_sees_what_its_lanes_store(space: str, given: Any):
    network = NetworkSpec((4,), space, ActionHead("categorical", (3,)), hidden=(8,))
    vector = initial_parameters(network, 0)
    spec = ActorCriticSpec(network, Head("discrete", choices=3), vector.size)
    policy, inference = build_policy(spec), MLPInference(network)
    policy.load_vector(vector)
    inference.load({"parameters": vector})
    observation = np.array([0, 1, 3, 1], given)
    stored = observation.astype(space)
    outputs = inference(stored[None])[0][0]
    assert policy.output(observation).tobytes() == outputs.tobytes()
    assert policy.output(stored).tobytes() == outputs.tobytes()
    exported = torch_policy(spec, vector, None, None)
    assert policy.act(observation) == exported(exported_rows(stored))[0].item()


def test_a_nan_in_any_output_of_a_network_of_ones_own_is_in_the_first():
    head = ActionHead("categorical", (3,))
    network = NetworkSpec((4,), "<f4", head, "actor_critic_networks:LastIsNaN")
    vector = initial_parameters(network, 0)
    policy = build_policy(ActorCriticSpec(network, Head("discrete", choices=3), vector.size))
    policy.load_vector(vector)
    assert np.isnan(policy.output(np.full(4, 3.0))).tolist() == [True, False, True]
    assert not np.isnan(policy.output(np.full(4, 2.0))).any()


def exported_rows(stored: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(stored[None])
