"""Log-probabilities, entropies and their derivatives against autograd over torch.distributions."""

import numpy as np
import pytest
import torch
from loss_oracles import log_prob_and_entropy

from drumline.policies.action_gradients import action_terms
from drumline.policies.actions import ActionHead, sample

HEADS = [
    ActionHead("categorical", (7,)),
    ActionHead("multi-discrete", (3, 5, 2)),
    ActionHead("gaussian", (4,)),
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
@pytest.mark.parametrize("by_entropy", [0.0, -0.3])
def test_values_and_derivatives_are_autograds(head: ActionHead, by_entropy: float):
    rng = np.random.default_rng(1)
    outputs = rng.normal(0, 1.5, (40, head.output_size)).astype(np.float32)
    shape = (40, head.noise_size)
    normal = head.noise_kind == "normal"
    noise = rng.standard_normal(shape, np.float32) if normal else rng.random(shape, np.float32)
    actions, _ = sample(head, outputs, noise)
    weights = rng.standard_normal(40).astype(np.float32)
    leaves = torch.from_numpy(outputs).requires_grad_()
    log_probs, entropies = log_prob_and_entropy(head, leaves, torch.from_numpy(actions))
    (log_probs @ torch.from_numpy(weights) + by_entropy * entropies.sum()).backward()

    terms = action_terms(head, outputs, actions)
    assert terms.log_probs == pytest.approx(log_probs.detach().numpy(), abs=1e-5)
    assert terms.entropies == pytest.approx(entropies.detach().numpy(), abs=1e-5)
    assert leaves.grad is not None
    found = terms.d_outputs(weights, np.float32(by_entropy))
    assert found == pytest.approx(leaves.grad.numpy(), abs=1e-4, rel=1e-4)
    same = terms.d_outputs(weights, np.full(40, by_entropy, np.float32))
    assert np.array_equal(same, found)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_rows_may_weigh_their_entropies_differently(head: ActionHead):
    rng = np.random.default_rng(2)
    outputs = rng.normal(0, 1.5, (6, head.output_size)).astype(np.float32)
    actions = np.zeros((6, *head.action_shape), head.action_dtype)
    weights = rng.standard_normal(6).astype(np.float32)
    leaves = torch.from_numpy(outputs).requires_grad_()
    _, entropies = log_prob_and_entropy(head, leaves, torch.from_numpy(actions))
    (entropies @ torch.from_numpy(weights)).backward()
    found = action_terms(head, outputs, actions).d_outputs(np.zeros(6, np.float32), weights)
    assert leaves.grad is not None
    assert found == pytest.approx(leaves.grad.numpy(), abs=1e-5)


def test_an_impossible_choice_has_no_nan():
    outputs = np.array([[0.0, -200.0, 3.0]], np.float32)
    terms = action_terms(ActionHead("categorical", (3,)), outputs, np.array([1]))
    assert np.isfinite(terms.d_outputs(np.ones(1, np.float32), np.float32(1.0))).all()
    assert terms.log_probs[0] == pytest.approx(-203.0486, abs=1e-3)
