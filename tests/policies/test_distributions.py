"""Log-probabilities against torch.distributions and against the actor's own."""

import math

import numpy as np
import pytest
import torch
from loss_oracles import log_prob_and_entropy

from drumline.policies.actions import ActionHead, sample
from drumline.policies.distributions import log_probs_of

HEADS = [
    ActionHead("categorical", (7,)),
    ActionHead("multi-discrete", (3, 5, 2)),
    ActionHead("gaussian", (4,)),
]


def sampled(head: ActionHead, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs, the actor's actions and its log-probabilities."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(0, 1.5, (rows, head.output_size)).astype(np.float32)
    shape = (rows, head.noise_size)
    normal = head.noise_kind == "normal"
    noise = rng.standard_normal(shape, np.float32) if normal else rng.random(shape, np.float32)
    return outputs, *sample(head, outputs, noise)


@pytest.mark.parametrize("head", HEADS)
def test_log_probs_are_torchs(head: ActionHead):
    outputs, actions, _ = map(torch.from_numpy, sampled(head, 40))
    found = log_probs_of(head, outputs, actions)
    assert found.shape == (40,)
    assert torch.allclose(found, log_prob_and_entropy(head, outputs, actions)[0], 1e-4, 1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_learner_agrees_with_the_actor_about_its_log_probs(head: ActionHead):
    outputs, actions, log_probs = sampled(head, 200)
    found = log_probs_of(head, torch.from_numpy(outputs), torch.from_numpy(actions))
    assert found.numpy() == pytest.approx(log_probs, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("head", HEADS[:2])
def test_every_action_of_a_uniform_policy_has_one_of_n(head: ActionHead):
    actions = torch.zeros(3, *head.action_shape, dtype=torch.int64)
    log_probs = log_probs_of(head, torch.zeros(3, head.output_size), actions)
    assert log_probs.tolist() == pytest.approx([-math.log(math.prod(head.sizes))] * 3)
