"""Value targets and advantages over `[T, B]`: n-step returns, GAE and V-trace.

One convention holds for all. `discounts` is γ, and 0 if the step terminated. `ended` is true if the
episode ended by termination or truncation. `next_values` is the value of the state after the step
*in the same episode*. Values are therefore bootstrapped at a time limit, and no sum crosses into
the next episode. All operations are element by element over `B`, in a loop over `T`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def next_values(
    values: Float[Tensor, "T B"],
    tail_values: Float[Tensor, " B"],
    final_values: Float[Tensor, "T B"],
    truncated: Bool[Tensor, "T B"],
) -> Float[Tensor, "T B"]:
    """V of the state after each step: next row, `tail_values` at the end, `final_values` if cut.

    `final_values` is V(last observation of the episode), and is read only where `truncated` is
    true.
    """
    following = torch.cat([values[1:], tail_values[None]])
    return torch.where(truncated, final_values, following)


def gae(
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    ended: Bool[Tensor, "T B"],
    *,
    lambda_: float,
) -> Float[Tensor, "T B"]:
    """Generalized advantage estimate (Schulman et al. 2016, eq. 16): A_t = δ_t + γλ A_{t+1}."""
    errors = rewards + discounts * next_values - values
    return _discounted_sums(errors, discounts * lambda_ * ~ended)


def n_step_returns(
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    ended: Bool[Tensor, "T B"],
    *,
    unroll: int,
) -> Float[Tensor, "T B"]:
    """A3C's returns (Mnih et al. 2016, Algorithm S3), bootstrapped at the end of every unroll.

    Unrolls are counted from row 0; the last one may be shorter.
    """
    if unroll < 1:
        raise ValueError(f"an unroll has at least 1 step, got {unroll}")
    cut = ended.clone()
    cut[unroll - 1 :: unroll] = True
    returns = list(rewards.unbind())
    following = next_values[-1]
    for t in reversed(range(len(returns))):
        following = torch.where(cut[t], next_values[t], following)
        returns[t] = following = rewards[t] + discounts[t] * following
    return torch.stack(returns)


def returns_to_go(
    rewards: Float[Tensor, "T B"], discounts: Float[Tensor, "T B"], ended: Bool[Tensor, "T B"]
) -> Float[Tensor, "T B"]:
    """REINFORCE's R_t = Σₖ γᵏ r_{t+k} to the end of the episode or of the rollout."""
    return _discounted_sums(rewards, discounts * ~ended)


class VTrace(NamedTuple):
    """Value targets v_s and the advantages ρ_s (r_s + γ v_{s+1} − V(x_s))."""

    targets: Float[Tensor, "T B"]
    advantages: Float[Tensor, "T B"]


def vtrace(
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    ended: Bool[Tensor, "T B"],
    log_probs: Float[Tensor, "T B"],
    behavior_log_probs: Float[Tensor, "T B"],
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al. 2018, eq. 1, by the recursion of remark 1; λ as in remark 2).

    The advantages are those of section 4.2, with v_{s+1} replaced by `next_values` at the end of an
    episode or of the rollout.
    """
    if c_bar > rho_bar:
        raise ValueError(f"V-trace needs c_bar ≤ rho_bar, got {c_bar} > {rho_bar}")
    rho = truncated_importance_ratios(log_probs, behavior_log_probs, bar=rho_bar)
    c = lambda_ * truncated_importance_ratios(log_probs, behavior_log_probs, bar=c_bar)
    errors = rho * (rewards + discounts * next_values - values)
    targets = values + _discounted_sums(errors, discounts * c * ~ended)
    following = torch.where(ended[:-1], next_values[:-1], targets[1:])
    following = torch.cat([following, next_values[-1:]])
    return VTrace(targets, rho * (rewards + discounts * following - values))


def truncated_importance_ratios(
    log_probs: Float[Tensor, "*rows"], behavior_log_probs: Float[Tensor, "*rows"], *, bar: float
) -> Float[Tensor, "*rows"]:
    """min(bar, π(a|x) / μ(a|x)), the ρ and c of Espeholt et al. 2018."""
    return torch.exp(log_probs - behavior_log_probs).clamp(max=bar)


def _discounted_sums(
    terms: Float[Tensor, "T B"], decays: Float[Tensor, "T B"]
) -> Float[Tensor, "T B"]:
    """S_t = terms_t + decays_t S_{t+1}, with S_T = 0."""
    term_rows, decay_rows = terms.unbind(), decays.unbind()
    sums = list(term_rows)
    for t in reversed(range(len(sums) - 1)):
        sums[t] = term_rows[t] + decay_rows[t] * sums[t + 1]
    return torch.stack(sums)
