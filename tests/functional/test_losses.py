"""Losses against loops over rows; their derivatives against autograd and finite differences."""

import math
from functools import partial
from typing import Any

import loss_oracles
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drumline.functional.losses import (
    Loss,
    LossRows,
    a2c_loss,
    explained_variance,
    kl_estimates,
    ppo_loss,
    reinforce_loss,
    standardized,
)

COEFFICIENTS = {"value_coefficient": 0.7, "entropy_coefficient": 0.03}
A2C: Loss = partial(a2c_loss, **COEFFICIENTS)
REINFORCE: Loss = partial(reinforce_loss, entropy_coefficient=0.03)
PPO: Loss = partial(ppo_loss, clip=0.2, value_clip=0.3, **COEFFICIENTS)
LEARNED = ("log_probs", "entropies", "values")


def drawn(seed: int, rows: int = 12) -> LossRows:
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((7, rows)).astype(np.float32)
    columns[1] = columns[0] + 0.3 * columns[1]
    columns[4] = columns[3] + 0.3 * columns[4]
    return LossRows(*columns)


def ones(**some: Any) -> LossRows:
    """One row, everything 0 but what is given."""
    return LossRows(*np.zeros((7, 1), np.float32))._replace(
        **{name: np.array([number], np.float32) for name, number in some.items()}
    )


def autograds(loss: Any, rows: LossRows, divisor: int) -> tuple[Any, dict[str, np.ndarray]]:
    """The oracle's parts, and its derivatives by what the network gives."""
    leaves = loss_oracles.Rows(*(torch.from_numpy(x.copy()).requires_grad_() for x in rows))
    parts = loss(leaves, divisor)
    parts.loss.backward()
    gradients = {name: getattr(leaves, name).grad.numpy() for name in LEARNED}
    return loss_oracles.Parts(*(part.detach() for part in parts)), gradients


def agree(loss: Loss, oracle: Any, rows: LossRows, *, of_values: bool = True) -> None:
    count = len(rows.values)
    expected, gradients = autograds(oracle, rows, 2 * count)
    terms = loss(rows, 2 * count)
    reported = ("policy_loss", "value_loss") if of_values else ("policy_loss",)
    assert set(reported) <= set(terms.metrics)
    for name in reported:
        wanted = float(getattr(expected, name))
        assert terms.metrics[name] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert terms.d_log_probs == pytest.approx(gradients["log_probs"], rel=1e-4, abs=1e-6)
    assert terms.d_values == pytest.approx(gradients["values"], rel=1e-4, abs=1e-6)
    assert np.full(count, terms.d_entropies) == pytest.approx(gradients["entropies"], rel=1e-5)
    found = (terms.d_log_probs, terms.d_values, terms.d_entropies)
    assert {array.dtype for array in found} == {np.dtype(np.float32)}


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.sampled_from([None, 0.05, 0.5]),
    st.sampled_from([0.1, 0.4]),
)
def test_ppos_derivatives_are_autograds(
    seed: int, rows: int, value_clip: float | None, clip: float
):
    options = {"clip": clip, "value_clip": value_clip, **COEFFICIENTS}
    oracle = partial(loss_oracles.ppo_loss, **options)
    agree(partial(ppo_loss, **options), oracle, drawn(seed, rows))


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_reinforces_derivatives_are_autograds(seed: int, rows: int):
    oracle = partial(loss_oracles.a2c_loss, value_coefficient=0.0, entropy_coefficient=0.03)
    agree(REINFORCE, oracle, drawn(seed, rows), of_values=False)


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_a2cs_derivatives_are_autograds(seed: int, rows: int):
    agree(A2C, partial(loss_oracles.a2c_loss, **COEFFICIENTS), drawn(seed, rows))


@pytest.mark.parametrize("loss", [A2C, PPO], ids=["a2c", "ppo"])
def test_derivatives_are_finite_differences_of_the_loss(loss: Loss):
    rows = LossRows(*(column.astype(np.float64) for column in drawn(5)))
    terms = loss(rows, 12)

    def value(at: LossRows) -> float:
        metrics = loss(at, 12).metrics
        entropy = float(at.entropies.sum()) / 12
        return metrics["policy_loss"] + 0.7 * metrics["value_loss"] - 0.03 * entropy

    found = (terms.d_log_probs, terms.d_entropies, terms.d_values)
    for name, derivative in zip(LEARNED, found, strict=True):
        for row, expected in enumerate(np.broadcast_to(derivative, 12)):
            step = 1e-5 * (np.arange(12) == row)
            ahead = value(rows._replace(**{name: getattr(rows, name) + step}))
            behind = value(rows._replace(**{name: getattr(rows, name) - step}))
            assert (ahead - behind) / 2e-5 == pytest.approx(float(expected), rel=1e-3, abs=1e-6)


@given(st.integers(0, 1_000))
def test_a2cs_metrics_are_means_over_rows(seed: int):
    policy = value = 0.0
    rows = drawn(seed)
    for log_prob, _, _, v, _, advantage, target in np.transpose(rows).tolist():
        policy -= advantage * log_prob / 12
        value += 0.5 * (v - target) ** 2 / 12
    found = A2C(rows, 12).metrics
    assert found == pytest.approx({"policy_loss": policy, "value_loss": value}, rel=1e-4, abs=1e-5)


@given(st.integers(0, 1_000), st.floats(0.01, 0.5), st.none() | st.floats(0.01, 0.5))
def test_ppos_metrics_are_means_of_clipped_terms(seed: int, clip: float, value_clip: float | None):
    sums = np.zeros(3)
    rows = drawn(seed)
    for log_prob, old, _, v, old_v, advantage, target in np.transpose(rows).tolist():
        ratio = math.exp(log_prob - old)
        gain = min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)
        square = (v - target) ** 2
        if value_clip is not None:
            near = old_v + min(max(v - old_v, -value_clip), value_clip)
            square = max(square, (near - target) ** 2)
        sums += np.array([-gain, 0.5 * square, abs(ratio - 1) > clip]) / 12
    found = ppo_loss(rows, 12, clip=clip, value_clip=value_clip, **COEFFICIENTS).metrics
    names = ("policy_loss", "value_loss", "clip_fraction")
    expected = dict(zip(names, sums.tolist(), strict=True))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("loss", [A2C, PPO, REINFORCE], ids=["a2c", "ppo", "reinforce"])
def test_shards_add_up_to_the_whole(loss: Loss):
    rows = drawn(3)
    whole = loss(rows, 12)
    shards = [loss(LossRows(*(column[i::3] for column in rows)), 12) for i in range(3)]
    for name, number in whole.metrics.items():
        assert sum(shard.metrics[name] for shard in shards) == pytest.approx(number, abs=1e-6)
    for i, shard in enumerate(shards):
        assert np.array_equal(shard.d_log_probs, whole.d_log_probs[i::3])
        assert np.array_equal(shard.d_values, whole.d_values[i::3])
        assert shard.d_entropies == whole.d_entropies


@pytest.mark.parametrize("loss", [A2C, PPO], ids=["a2c", "ppo"])
def test_the_gradient_raises_what_paid_lowers_the_value_error_and_raises_entropy(loss: Loss):
    terms = loss(ones(advantages=2.0, returns=3.0), 1)
    found = [float(terms.d_log_probs[0]), float(terms.d_values[0]), float(terms.d_entropies)]
    assert found == pytest.approx([-2.0, 0.7 * -3.0, -0.03])


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.3, 1.0, False), (1.3, -1.0, True), (0.7, 1.0, True), (0.7, -1.0, False), (1.1, 1.0, True)],
)
def test_ppo_stops_where_it_has_already_gone_far_enough(
    ratio: float, advantage: float, moves: bool
):
    terms = PPO(ones(log_probs=math.log(ratio), advantages=advantage), 1)
    derivative = -ratio * advantage if moves else 0.0
    assert float(terms.d_log_probs[0]) == pytest.approx(derivative)
    assert terms.metrics["clip_fraction"] == (0.0 if ratio == 1.1 else 1.0)


def test_a_ratio_that_is_no_number_is_found_in_the_derivative():
    assert math.isnan(PPO(ones(log_probs=math.nan, advantages=1.0), 1).d_log_probs[0])


def test_kl_estimates_average_to_the_kl_divergence_and_are_never_negative():
    behavior = torch.log_softmax(torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64), 0).numpy()
    target = torch.log_softmax(torch.tensor([0.5, 0.0, 1.0], dtype=torch.float64), 0).numpy()
    estimates = kl_estimates(target, behavior)
    exact = float((np.exp(behavior) * (behavior - target)).sum())
    assert float((np.exp(behavior) * estimates).sum()) == pytest.approx(exact)
    assert bool((estimates >= 0).all())


@given(st.integers(0, 1000), st.integers(2, 200))
def test_standardized_advantages_have_mean_0_and_population_std_1(seed: int, rows: int):
    values = np.random.default_rng(seed).normal(3, 2, rows).astype(np.float32)
    exact = values.astype(np.float64)
    expected = (exact - exact.mean()) / (exact.std() + 1e-8)
    assert standardized(values) == pytest.approx(expected, abs=1e-5)


def test_equal_advantages_become_zero():
    assert standardized(np.full(5, 7.0, np.float32)).tolist() == [0.0] * 5


def test_explained_variance_is_1_when_perfect_0_for_a_constant_and_nan_without_variance():
    returns = np.array([1.0, 2.0, 4.0], np.float32)
    assert explained_variance(returns + np.float32(5.0), returns) == pytest.approx(1.0)
    assert explained_variance(np.zeros(3, np.float32), returns) == pytest.approx(0.0)
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert math.isnan(explained_variance(returns, np.ones(3, np.float32)))
