"""Returns against slow loops over one environment, in the papers' notation."""

import math
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from drumline.functional.returns import (
    gae,
    n_step_returns,
    next_values,
    returns_to_go,
    truncated_importance_ratios,
    vtrace,
)

GAMMA = 0.9


class Rollout(NamedTuple):
    rewards: Tensor
    values: Tensor
    tail_values: Tensor
    final_values: Tensor
    terminated: Tensor
    truncated: Tensor
    log_probs: Tensor
    behavior_log_probs: Tensor

    @property
    def ended(self) -> Tensor:
        return self.terminated | self.truncated

    @property
    def discounts(self) -> Tensor:
        return GAMMA * (~self.terminated).to(self.rewards.dtype)

    @property
    def next_values(self) -> Tensor:
        return next_values(self.values, self.tail_values, self.final_values, self.truncated)


@st.composite
def rollouts(draw, narrowest: int = 1, widest: int = 5) -> Rollout:
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    steps, environments = draw(st.integers(1, 9)), draw(st.integers(narrowest, widest))
    normal = [torch.randn(steps, environments, generator=rng).double() for _ in range(5)]
    fate = torch.rand(steps, environments, generator=rng)
    return Rollout(
        rewards=normal[0],
        values=normal[1],
        tail_values=torch.randn(environments, generator=rng).double(),
        final_values=normal[2],
        terminated=fate < 0.2,
        truncated=fate > 0.8,
        log_probs=normal[3],
        behavior_log_probs=normal[4],
    )


def value_after(r: Rollout, t: int, b: int) -> float:
    """V of the state that follows step t of environment b in the same episode."""
    if r.terminated[t, b]:
        return 0.0
    if r.truncated[t, b]:
        return float(r.final_values[t, b])
    return float(r.values[t + 1, b] if t + 1 < len(r.values) else r.tail_values[b])


def episode_from(r: Rollout, t: int, b: int) -> range:
    """The steps from t to the end of the episode or of the rollout."""
    last = t
    while last + 1 < len(r.rewards) and not r.ended[last, b]:
        last += 1
    return range(t, last + 1)


def every(r: Rollout, formula) -> Tensor:
    steps, environments = r.rewards.shape
    rows = [[formula(t, b) for b in range(environments)] for t in range(steps)]
    return torch.tensor(rows, dtype=torch.float64)


def error(r: Rollout, t: int, b: int) -> float:
    return float(r.rewards[t, b]) + GAMMA * value_after(r, t, b) - float(r.values[t, b])


def gae_of(r: Rollout, lambda_: float) -> Tensor:
    return gae(r.rewards, r.discounts, r.values, r.next_values, r.ended, lambda_=lambda_)


def vtrace_of(r: Rollout, **bars: float):
    return vtrace(
        r.rewards,
        r.discounts,
        r.values,
        r.next_values,
        r.ended,
        r.log_probs,
        r.behavior_log_probs,
        **bars,
    )


@given(rollouts(), st.floats(0, 1))
def test_gae_is_the_discounted_sum_of_errors_up_to_the_episodes_end(r: Rollout, lambda_: float):
    def advantage(t: int, b: int) -> float:
        steps = episode_from(r, t, b)
        return sum((GAMMA * lambda_) ** (s - t) * error(r, s, b) for s in steps)

    torch.testing.assert_close(gae_of(r, lambda_), every(r, advantage))


@given(rollouts())
def test_gae_without_lambda_is_the_error_and_with_all_of_it_the_return_less_the_value(r: Rollout):
    torch.testing.assert_close(gae_of(r, 0.0), every(r, lambda t, b: error(r, t, b)))
    whole = n_step_returns(r.rewards, r.discounts, r.next_values, r.ended, unroll=len(r.rewards))
    torch.testing.assert_close(gae_of(r, 1.0), whole - r.values)


@given(rollouts())
def test_returns_to_go_are_sums_of_rewards_alone(r: Rollout):
    def sums(t: int, b: int) -> float:
        return sum(GAMMA ** (s - t) * float(r.rewards[s, b]) for s in episode_from(r, t, b))

    torch.testing.assert_close(returns_to_go(r.rewards, r.discounts, r.ended), every(r, sums))


@given(rollouts(), st.integers(1, 12))
def test_n_step_returns_bootstrap_at_every_unrolls_end(r: Rollout, unroll: int):
    def n_step_return(t: int, b: int) -> float:
        end_of_unroll = (t // unroll + 1) * unroll
        steps = [s for s in episode_from(r, t, b) if s < end_of_unroll]
        rewards = sum(GAMMA ** (s - t) * float(r.rewards[s, b]) for s in steps)
        return rewards + GAMMA ** len(steps) * value_after(r, steps[-1], b)

    ours = n_step_returns(r.rewards, r.discounts, r.next_values, r.ended, unroll=unroll)
    torch.testing.assert_close(ours, every(r, n_step_return))


@given(rollouts(), st.floats(0.1, 3), st.floats(0, 1), st.floats(0, 1))
def test_vtrace_is_equation_1(r: Rollout, rho_bar: float, c_share: float, lambda_: float):
    c_bar = c_share * rho_bar

    def ratio(t: int, b: int) -> float:
        return math.exp(float(r.log_probs[t, b]) - float(r.behavior_log_probs[t, b]))

    def target(s: int, b: int) -> float:
        total = float(r.values[s, b])
        for t in episode_from(r, s, b):
            product = math.prod(lambda_ * min(c_bar, ratio(i, b)) for i in range(s, t))
            total += GAMMA ** (t - s) * product * min(rho_bar, ratio(t, b)) * error(r, t, b)
        return total

    def advantage(s: int, b: int) -> float:
        goes_on = s + 1 < len(r.rewards) and not r.ended[s, b]
        following = target(s + 1, b) if goes_on else value_after(r, s, b)
        gain = float(r.rewards[s, b]) + GAMMA * following - float(r.values[s, b])
        return min(rho_bar, ratio(s, b)) * gain

    ours = vtrace_of(r, rho_bar=rho_bar, c_bar=c_bar, lambda_=lambda_)
    torch.testing.assert_close(ours.targets, every(r, target))
    torch.testing.assert_close(ours.advantages, every(r, advantage))


@given(rollouts(), st.floats(0, 1))
def test_on_policy_vtrace_is_gae_plus_the_value(r: Rollout, lambda_: float):
    on_policy = r._replace(behavior_log_probs=r.log_probs)
    ours = vtrace_of(on_policy, lambda_=lambda_)
    torch.testing.assert_close(ours.targets, gae_of(r, lambda_) + r.values)


@given(rollouts(), st.data())
def test_nothing_leaks_from_the_next_episode(r: Rollout, data: st.DataObject):
    t = data.draw(st.integers(0, len(r.rewards) - 1))
    r.truncated[t], r.terminated[t] = True, False

    def until_t(other: Rollout) -> list[Tensor]:
        returns = n_step_returns(
            other.rewards, other.discounts, other.next_values, other.ended, unroll=99
        )
        return [part[: t + 1] for part in (gae_of(other, 0.9), returns, *vtrace_of(other))]

    another = r._replace(rewards=r.rewards.clone(), values=r.values.clone())
    another.rewards[t + 1 :] += 1e3
    another.values[t + 1 :] -= 1e3
    for ours, theirs in zip(until_t(r), until_t(another), strict=True):
        assert torch.equal(ours, theirs)


@given(rollouts(narrowest=2, widest=20))
def test_an_environments_bits_do_not_depend_on_the_others(r: Rollout):
    single = Rollout(*(x.float() if x.dtype == torch.float64 else x for x in r))
    alone = Rollout(*(x[..., 1:2].contiguous() for x in single))
    for ours, theirs in [
        (gae_of(single, 0.95), gae_of(alone, 0.95)),
        *zip(vtrace_of(single), vtrace_of(alone), strict=True),
    ]:
        assert ours.dtype == torch.float32
        assert torch.equal(ours[:, 1:2], theirs)


def test_a_truncated_step_bootstraps_from_its_own_last_observation():
    rewards = torch.tensor([[1.0], [1.0], [1.0]])
    values, final_values = torch.tensor([[2.0], [3.0], [4.0]]), torch.full((3, 1), 10.0)
    truncated = torch.tensor([[False], [True], [False]])
    after = next_values(values, torch.tensor([5.0]), final_values, truncated)
    assert after.flatten().tolist() == [3.0, 10.0, 5.0]
    discounts = torch.full((3, 1), 0.5)
    returns = n_step_returns(rewards, discounts, after, truncated, unroll=3)
    assert returns.flatten().tolist() == [1 + 0.5 * 6.0, 1 + 0.5 * 10, 1 + 0.5 * 5]
    advantages = gae(rewards, discounts, values, after, truncated, lambda_=0.5)
    assert advantages.flatten().tolist() == [0.5 + 0.25 * 3.0, 3.0, -0.5]


def test_a_ratio_beyond_every_float_is_the_bar():
    far = truncated_importance_ratios(torch.tensor([900.0]), torch.tensor([-900.0]), bar=2.0)
    assert far.tolist() == [2.0]


def test_bad_settings_are_named():
    one = torch.zeros(1, 1)
    no = torch.zeros(1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        n_step_returns(one, one, one, no, unroll=0)
    with pytest.raises(ValueError, match=r"got 2\.0 > 1\.0"):
        vtrace(one, one, one, one, no, one, one, c_bar=2.0)
