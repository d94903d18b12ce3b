"""Losses with their derivatives against autograd over `losses`."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.loss_gradients import a2c_loss_terms, ppo_loss_terms, standardized
from drumline.functional.losses import a2c_loss, normalized, ppo_loss


def drawn(seed: int, rows: int) -> list[np.ndarray]:
    """log_probs, behaviour's, entropies, values, behaviour's, advantages, returns."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((7, rows)).astype(np.float32)
    columns[1] = columns[0] + 0.3 * columns[1]
    return list(columns)


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.sampled_from([None, 0.05, 0.5]),
    st.sampled_from([0.1, 0.4]),
)
def test_ppo_is_what_autograd_gives(seed: int, rows: int, value_clip: float | None, clip: float):
    columns = drawn(seed, rows)
    options = {"value_coefficient": 0.7, "entropy_coefficient": 0.03, "divisor": 2 * rows}
    leaves = [torch.from_numpy(column.copy()).requires_grad_() for column in columns]
    expected = ppo_loss(*leaves, clip=clip, value_clip=value_clip, **options)
    expected.loss.backward()
    terms = ppo_loss_terms(*columns, clip=clip, value_clip=value_clip, **options)
    for found, wanted in zip(terms[:5], expected[1:], strict=True):
        assert found == pytest.approx(float(wanted), rel=1e-4, abs=1e-5)
    log_probs, _, entropies, values, _, _, _ = leaves
    for found, leaf in ((terms.d_log_probs, log_probs), (terms.d_values, values)):
        assert leaf.grad is not None
        assert found == pytest.approx(leaf.grad.numpy(), rel=1e-4, abs=1e-6)
    assert entropies.grad is not None
    assert entropies.grad.numpy() == pytest.approx(np.full(rows, terms.d_entropy), rel=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_a2c_is_what_autograd_gives(seed: int, rows: int):
    log_probs, behavior, entropies, values, _, advantages, returns = drawn(seed, rows)
    columns = [log_probs, entropies, values, advantages, returns]
    options = {"value_coefficient": 0.7, "entropy_coefficient": 0.03, "divisor": 2 * rows}
    leaves = [torch.from_numpy(column.copy()).requires_grad_() for column in columns]
    expected = a2c_loss(*leaves, **options)
    expected.loss.backward()
    terms = a2c_loss_terms(log_probs, behavior, entropies, values, advantages, returns, **options)
    for found, wanted in zip(terms[:3], expected[1:], strict=True):
        assert found == pytest.approx(float(wanted), rel=1e-4, abs=1e-5)
    for found, leaf in ((terms.d_log_probs, leaves[0]), (terms.d_values, leaves[2])):
        assert leaf.grad is not None
        assert found == pytest.approx(leaf.grad.numpy(), rel=1e-4, abs=1e-6)


def test_a_ratio_past_the_clip_on_the_good_side_has_no_gradient():
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    log_probs = np.log(np.array([1.5, 1.5, 0.5, 0.5], np.float32))
    advantages = np.array([1.0, -1.0, 1.0, -1.0], np.float32)
    terms = ppo_loss_terms(
        log_probs, zeros, zeros, ones, ones, advantages, ones,
        clip=0.2, value_clip=None, value_coefficient=1.0, entropy_coefficient=0.0, divisor=4,
    )  # fmt: skip
    assert terms.d_log_probs == pytest.approx([0.0, 1.5 / 4, -0.5 / 4, 0.0])
    assert terms.clip_fraction == 1.0
    # −(1.2 − 1.5 + 0.5 − 0.8) / 4
    assert terms.policy_loss == pytest.approx(0.15)


@given(st.integers(0, 1000), st.integers(2, 200))
def test_standardized_is_normalized(seed: int, rows: int):
    values = np.random.default_rng(seed).normal(3, 2, rows).astype(np.float32)
    expected = normalized(torch.from_numpy(values)).numpy()
    assert standardized(values) == pytest.approx(expected, abs=1e-5)


def test_equal_advantages_become_zero():
    assert standardized(np.full(5, 7.0, np.float32)).tolist() == [0.0] * 5
