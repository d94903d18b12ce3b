"""Actions of an exported policy lie in the environment's space, whatever its dtype."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from drumline.policies.build import build_policy
from drumline.policies.exported_module import torch_policy
from drumline.policies.heads import Head
from drumline.policies.spec import PolicySpec

HEAD = Head("continuous", low=(-0.1, -0.3), high=(0.1, 0.3), shape=(2,), dtype="<f8")
HEADS = [
    HEAD,
    replace(HEAD, kind="squashed"),
    replace(HEAD, kind="bins", bins=(-1.0, 0.0, 1.0)),
    replace(HEAD, dtype="<f4"),
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head.kind} {head.dtype}")
def test_saturated_actions_are_in_the_space(head: Head):
    low, high = (np.array(each, head.dtype) for each in (head.low, head.high))
    space = gymnasium.spaces.Box(low, high, dtype=np.dtype(head.dtype).type)
    spec = PolicySpec(3, head, ())
    policy = build_policy(spec)
    vector = np.random.default_rng(0).standard_normal(policy.parameter_count).astype(np.float32)
    policy.load_vector(1e3 * vector)
    module = torch_policy(spec, policy.vector, None, None)
    for row in np.random.default_rng(1).standard_normal((20, 3)):
        action = module(torch.from_numpy(row[None]))[0].numpy()
        assert action.dtype == space.dtype
        assert space.contains(action), f"{action} is outside of {space}"
        assert action == pytest.approx(policy.act(row))
