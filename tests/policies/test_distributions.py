"""Log-probabilities and entropies against torch.distributions and against the actor's own."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from drumline.policies.actions import ActionHead, sample
from drumline.policies.distributions import log_prob_and_entropy

HEADS = [
    ActionHead("categorical", (7,)),
    ActionHead("multi-discrete", (3, 5, 2)),
    ActionHead("gaussian", (4,)),
]


def by_torch(head: ActionHead, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    if head.kind == "gaussian":
        mean, log_std = outputs.split(head.sizes[0], dim=1)
        law = Independent(Normal(mean, log_std.exp()), 1)
        return law.log_prob(actions), law.entropy()
    chosen = actions.reshape(len(actions), -1).unbind(1)
    laws = [Categorical(logits=logits) for logits in outputs.split(head.sizes, dim=1)]
    log_probs = [law.log_prob(action) for law, action in zip(laws, chosen, strict=True)]
    return sum(log_probs, torch.zeros(())), sum((x.entropy() for x in laws), torch.zeros(()))


def sampled(head: ActionHead, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs, the actor's actions and its log-probabilities."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(0, 1.5, (rows, head.output_size)).astype(np.float32)
    shape = (rows, head.noise_size)
    normal = head.noise_kind == "normal"
    noise = rng.standard_normal(shape, np.float32) if normal else rng.random(shape, np.float32)
    return outputs, *sample(head, outputs, noise)


@pytest.mark.parametrize("head", HEADS)
def test_values_and_gradients_are_torchs(head: ActionHead):
    outputs, actions, _ = sampled(head, 40)
    ours = torch.from_numpy(outputs).requires_grad_()
    theirs = torch.from_numpy(outputs).requires_grad_()
    results = log_prob_and_entropy(head, ours, torch.from_numpy(actions))
    expected = by_torch(head, theirs, torch.from_numpy(actions))
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == (40,)
        assert torch.allclose(result, wanted, rtol=1e-4, atol=1e-5)
    weights = torch.linspace(-1, 1, 40)
    ((results[0] - 0.3 * results[1]) @ weights).backward()
    ((expected[0] - 0.3 * expected[1]) @ weights).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert torch.allclose(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_the_learner_agrees_with_the_actor_about_its_log_probs(head: ActionHead):
    outputs, actions, log_probs = sampled(head, 200)
    result, _ = log_prob_and_entropy(head, torch.from_numpy(outputs), torch.from_numpy(actions))
    assert result.numpy() == pytest.approx(log_probs, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("head", HEADS[:2])
def test_a_uniform_policy_has_the_entropy_log_n(head: ActionHead):
    actions = torch.zeros(3, *head.action_shape, dtype=torch.int64)
    log_probs, entropy = log_prob_and_entropy(head, torch.zeros(3, head.output_size), actions)
    nats = math.log(math.prod(head.sizes))
    assert entropy.tolist() == pytest.approx([nats] * 3)
    assert log_probs.tolist() == pytest.approx([-nats] * 3)


def test_half_precision_outputs_are_evaluated_in_single_precision():
    head = HEADS[0]
    outputs, actions, _ = sampled(head, 20)
    rounded = torch.from_numpy(outputs).bfloat16()
    results = log_prob_and_entropy(head, rounded, torch.from_numpy(actions))
    expected = log_prob_and_entropy(head, rounded.float(), torch.from_numpy(actions))
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == torch.float32
        assert torch.equal(result, wanted)
