"""Losses against loops over rows, and by their gradients."""

import math
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from drumline.functional.losses import (
    a2c_loss,
    explained_variance,
    kl_estimates,
    normalized,
    ppo_loss,
    scalar_moments,
)
from drumline.functional.moments import merge

ROWS = 12


def columns(seed: int, count: int, rows: int = ROWS) -> list[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, generator=rng, dtype=torch.float64) for _ in range(count)]


def a2c(inputs: list[Tensor], divisor: int = ROWS):
    return a2c_loss(*inputs, value_coefficient=0.5, entropy_coefficient=0.01, divisor=divisor)


def ppo(
    inputs: list[Tensor],
    divisor: int = ROWS,
    clip: float | None = 0.2,
    value_clip: float | None = 0.3,
):
    return ppo_loss(
        *inputs,
        clip=clip,
        value_clip=value_clip,
        value_coefficient=0.5,
        entropy_coefficient=0.01,
        divisor=divisor,
    )


@given(st.integers(0, 1_000))
def test_a2c_loss_is_the_mean_over_rows(seed: int):
    inputs = columns(seed, 5)
    policy = value = entropies = 0.0
    for log_prob, entropy, v, advantage, target in zip(*(x.tolist() for x in inputs), strict=True):
        policy -= advantage * log_prob / ROWS
        value += 0.5 * (v - target) ** 2 / ROWS
        entropies += entropy / ROWS
    ours = [float(part) for part in a2c(inputs)]
    assert ours == pytest.approx(
        [policy + 0.5 * value - 0.01 * entropies, policy, value, entropies]
    )


@given(
    st.integers(0, 1_000),
    st.none() | st.floats(0.01, 0.5),
    st.none() | st.floats(0.01, 0.5),
)
def test_ppo_loss_is_the_mean_of_clipped_terms(seed: int, clip, value_clip):
    inputs = columns(seed, 7)
    sums = np.zeros(5)
    for log_prob, behavior, entropy, v, old_v, advantage, target in zip(
        *(x.tolist() for x in inputs), strict=True
    ):
        ratio = math.exp(log_prob - behavior)
        low, high = (0.0, math.inf) if clip is None else (1 - clip, 1 + clip)
        gain = min(ratio * advantage, min(max(ratio, low), high) * advantage)
        square = (v - target) ** 2
        if value_clip is not None:
            near = old_v + min(max(v - old_v, -value_clip), value_clip)
            square = max(square, (near - target) ** 2)
        kl = ratio - 1 - (log_prob - behavior)
        outside = clip is not None and abs(ratio - 1) > clip
        sums += np.array([-gain, 0.5 * square, entropy, kl, outside]) / ROWS
    ours = ppo(inputs, clip=clip, value_clip=value_clip)
    assert [float(part) for part in ours[1:]] == pytest.approx(sums)
    assert float(ours.loss) == pytest.approx(sums[0] + 0.5 * sums[1] - 0.01 * sums[2])


@pytest.mark.parametrize(("loss", "count"), [(a2c, 5), (ppo, 7)])
def test_shards_add_up_to_the_whole(loss, count: int):
    inputs = columns(3, count)
    whole = loss(inputs, divisor=ROWS)
    shards = [loss([x[i::3] for x in inputs], divisor=ROWS) for i in range(3)]
    for part, of_shards in zip(whole, zip(*shards, strict=True), strict=True):
        assert float(sum(of_shards)) == pytest.approx(float(part))


def test_the_gradient_raises_what_paid_lowers_the_value_error_and_raises_entropy():
    for loss, count in ((a2c, 5), (partial(ppo, clip=None, value_clip=None), 7)):
        inputs = [torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in range(count)]
        with torch.no_grad():
            inputs[-2].fill_(2.0)  # the advantage
            inputs[-1].fill_(3.0)  # the return
        loss(inputs, divisor=1).loss.backward()
        log_prob, value = inputs[0], inputs[2] if count == 5 else inputs[3]
        entropy = inputs[1] if count == 5 else inputs[2]
        gradients = [float(x.grad) for x in (log_prob, entropy, value) if x.grad is not None]
        assert gradients == pytest.approx([-2.0, -0.01, 0.5 * -3.0])


def test_a_uniform_policy_reports_log_n_entropy():
    entropies = torch.full((4,), math.log(19))
    zero = torch.zeros(4)
    loss = a2c_loss(
        zero, entropies, zero, zero, zero, value_coefficient=0.5, entropy_coefficient=0.1, divisor=4
    )
    assert float(loss.policy_entropy_nats) == pytest.approx(math.log(19))
    assert float(loss.loss) == pytest.approx(-0.1 * math.log(19))


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.3, 1.0, False), (1.3, -1.0, True), (0.7, 1.0, True), (0.7, -1.0, False), (1.1, 1.0, True)],
)
def test_ppo_stops_where_it_has_already_gone_far_enough(ratio, advantage, moves):
    log_prob = torch.tensor([math.log(ratio)], requires_grad=True)
    zero = torch.zeros(1)
    loss = ppo([log_prob, zero, zero, zero, zero, torch.tensor([advantage]), zero], divisor=1)
    loss.loss.backward()
    assert log_prob.grad is not None
    assert bool(log_prob.grad != 0) is moves
    assert float(loss.clip_fraction) == (0.0 if ratio == 1.1 else 1.0)


def test_only_the_loss_has_a_gradient():
    inputs = [x.requires_grad_() for x in columns(0, 7)]
    for result in (a2c(inputs[:5]), ppo(inputs)):
        assert [part.requires_grad for part in result] == [True] + [False] * (len(result) - 1)


def test_kl_estimates_average_to_the_kl_divergence_and_are_never_negative():
    behavior = torch.log_softmax(torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64), 0)
    target = torch.log_softmax(torch.tensor([0.5, 0.0, 1.0], dtype=torch.float64), 0)
    estimates = kl_estimates(target, behavior)
    exact = float((behavior.exp() * (behavior - target)).sum())
    assert float((behavior.exp() * estimates).sum()) == pytest.approx(exact)
    assert bool((estimates >= 0).all())


def test_normalized_advantages_have_mean_0_and_population_std_1():
    advantages = columns(0, 1)[0].float() * 3 + 100
    ours = normalized(advantages).double().numpy()
    assert ours.mean() == pytest.approx(0.0, abs=1e-5)
    assert ours.std() == pytest.approx(1.0, rel=1e-5)
    assert normalized(torch.full((5,), 7.0)).tolist() == [0.0] * 5


def test_shards_normalise_by_the_moments_of_the_whole():
    advantages = columns(0, 1)[0]
    left, right = advantages[:5], advantages[5:]
    moments = merge(scalar_moments(left), scalar_moments(right))
    both = torch.cat([normalized(left, moments), normalized(right, moments)])
    torch.testing.assert_close(both, normalized(advantages))


def test_explained_variance_is_1_when_perfect_0_for_a_constant_and_nan_without_variance():
    returns = torch.tensor([1.0, 2.0, 4.0])
    assert explained_variance(returns + 5.0, returns) == pytest.approx(1.0)
    assert explained_variance(torch.zeros(3), returns) == pytest.approx(0.0)
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert math.isnan(explained_variance(returns, torch.ones(3)))
