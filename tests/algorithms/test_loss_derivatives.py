"""A loss through the action head, against autograd over torch.distributions."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from loss_oracles import Rows, log_prob_and_entropy
from loss_oracles import ppo_loss as oracle

from drumline.algorithms.loss_derivatives import Compared, derived
from drumline.functional.losses import LossRows, LossTerms, a2c_loss, ppo_loss
from drumline.policies.actions import ActionHead, sample

HEADS = [
    ActionHead("categorical", (7,)),
    ActionHead("multi-discrete", (3, 5, 2)),
    ActionHead("gaussian", (4,)),
]
ROWS = 24
A2C = partial(a2c_loss, value_coefficient=0.5, entropy_coefficient=0.01)


def drawn(head: ActionHead) -> tuple[np.ndarray, np.ndarray, Compared]:
    """Outputs, values, and what they are compared with."""
    rng = np.random.default_rng(4)
    outputs = rng.normal(0, 1.0, (ROWS, head.output_size)).astype(np.float32)
    shape = (ROWS, head.noise_size)
    normal = head.noise_kind == "normal"
    noise = rng.standard_normal(shape, np.float32) if normal else rng.random(shape, np.float32)
    actions, log_probs = sample(head, outputs, noise)
    near = log_probs + 0.3 * rng.standard_normal(ROWS).astype(np.float32)
    values, *columns = rng.standard_normal((4, ROWS)).astype(np.float32)
    return outputs, values, Compared(actions, near, *columns)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
def test_derivatives_by_outputs_and_values_are_autograds(head: ActionHead):
    outputs, values, compared = drawn(head)
    options: dict[str, Any] = {"clip": 0.2, "value_clip": 0.3}
    options |= {"value_coefficient": 0.7, "entropy_coefficient": 0.03}
    part = slice(5, 20)
    leaves = [torch.from_numpy(x[part]).requires_grad_() for x in (outputs, values)]
    actions, old, *columns = (torch.from_numpy(column[part]) for column in compared)
    log_probs, entropies = log_prob_and_entropy(head, leaves[0], actions)
    oracle(Rows(log_probs, old, entropies, leaves[1], *columns), ROWS, **options).loss.backward()
    loss = partial(ppo_loss, **options)
    found = derived(loss, head, compared, ROWS, outputs[part], values[part], part)
    for array, leaf in zip(found[:2], leaves, strict=True):
        assert leaf.grad is not None
        assert array == pytest.approx(leaf.grad.numpy(), rel=1e-4, abs=1e-5)
    ratios = (log_probs - old).detach()
    distances = torch.expm1(ratios) - ratios
    kl = float(distances.sum()) / ROWS
    assert found.metrics["approximate_kl_nats"] == pytest.approx(kl, rel=1e-3)
    entropy = float(entropies.detach().sum()) / ROWS
    assert found.metrics["policy_entropy_nats"] == pytest.approx(entropy, rel=1e-4)


def changed(name: str, wrong: Any, rows: LossRows, divisor: int) -> LossTerms:
    return A2C(rows, divisor)._replace(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "shape"),
    [("d_log_probs", (ROWS, 1)), ("d_values", (1,)), ("d_values", ()), ("d_entropies", (3,))],
)
def test_a_derivative_that_would_be_broadcast_is_refused(name: str, shape: tuple[int, ...]):
    outputs, values, compared = drawn(HEADS[0])
    loss = partial(changed, name, np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=rf"returned .*{name} of shape \[.* for 24 rows"):
        derived(loss, HEADS[0], compared, ROWS, outputs, values, slice(0, ROWS))


def test_derivatives_in_double_precision_are_rounded():
    outputs, values, compared = drawn(HEADS[0])

    def loss(rows: LossRows, divisor: int) -> LossTerms:
        terms = A2C(rows, divisor)
        return LossTerms(terms.metrics, *(np.asarray(x, np.float64) for x in terms[1:]))

    def found(of: Any) -> list[np.ndarray]:
        return list(derived(of, HEADS[0], compared, ROWS, outputs, values, slice(0, ROWS))[:2])

    for rounded, plain in zip(found(loss), found(A2C), strict=True):
        assert rounded.dtype == np.float32
        assert rounded == pytest.approx(plain, rel=1e-5)


def test_a_ratio_beyond_all_numbers_is_left_for_the_gradient_to_be_found_in():
    outputs, values, compared = drawn(HEADS[0])
    far = compared._replace(old_log_probs=np.full(ROWS, -1e4, np.float32))
    loss = partial(
        ppo_loss, clip=0.2, value_clip=None, value_coefficient=0.5, entropy_coefficient=0.0
    )
    with np.errstate(over="ignore", invalid="ignore"):
        found = derived(loss, HEADS[0], far, ROWS, outputs, values, slice(0, ROWS))
    assert not np.isfinite(found.d_outputs).all()
