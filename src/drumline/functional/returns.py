"""Returns and advantages over one interval, in torch; T steps of B environments.

An episode may end inside an interval. `discounts` is γ, or 0 where the episode terminated;
`continues` is 1, or 0 where it ended in either way; `next_values` is the value of what follows a
step *within its own episode* (see `values_after`), so that time limits are bootstrapped through
and nothing leaks from one episode into the one before.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


def values_after(
    values: Float[Tensor, "T B"],
    tail: Float[Tensor, " B"],
    final: Float[Tensor, " J"],
    final_steps: Tensor,
    final_environments: Tensor,
) -> Float[Tensor, "T B"]:
    """Return the value of what follows each step: the next row's, the tail's after the last row,
    and that of the truncated episode's own last observation where one was cut.
    """
    following = torch.cat([values[1:], tail[None]])
    following[final_steps, final_environments] = final
    return following


def gae(
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    continues: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    *,
    lambda_: float,
) -> Float[Tensor, "T B"]:
    """Generalized advantage estimate (Schulman et al. 2016, eq. 16).

    A_t = δ_t + γ λ A_{t+1} with δ_t = r_t + γ V(s_{t+1}) − V(s_t), started anew at each episode.
    """
    errors = rewards + discounts * next_values - values
    factors = discounts * continues * lambda_
    advantages = torch.empty_like(errors)
    running = torch.zeros_like(errors[0])
    for t in range(len(errors) - 1, -1, -1):
        running = errors[t] + factors[t] * running
        advantages[t] = running
    return advantages


def n_step_returns(
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    continues: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    *,
    unroll: int,
) -> Float[Tensor, "T B"]:
    """Returns of unrolls of `unroll` steps, each bootstrapped at its end (Mnih et al. 2016, S3).

    R_t = r_t + γ R_{t+1} inside an unroll and an episode, r_t + γ V(s_{t+1}) at their ends. The
    last unroll may be shorter.
    """
    returns = torch.empty_like(rewards)
    last = len(rewards) - 1
    for t in range(last, -1, -1):
        if t == last or (t + 1) % unroll == 0:
            following = next_values[t]
        else:
            following = continues[t] * returns[t + 1] + (1.0 - continues[t]) * next_values[t]
        returns[t] = rewards[t] + discounts[t] * following
    return returns


class VTrace(NamedTuple):
    """Value targets and policy-gradient advantages `[T, B]`."""

    targets: Tensor
    advantages: Tensor


def vtrace(
    ratios: Float[Tensor, "T B"],
    rewards: Float[Tensor, "T B"],
    discounts: Float[Tensor, "T B"],
    continues: Float[Tensor, "T B"],
    values: Float[Tensor, "T B"],
    next_values: Float[Tensor, "T B"],
    *,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al. 2018, eq. 1 and §4.2); `ratios` are π(a|s) / μ(a|s).

    v_t = V(s_t) + δ_t + γ c_t (v_{t+1} − V(s_{t+1})), δ_t = ρ_t (r_t + γ V(s_{t+1}) − V(s_t)),
    advantage_t = ρ_t (r_t + γ v_{t+1} − V(s_t)).
    """
    rhos = ratios.clamp(max=rho_bar)
    traces = lambda_ * ratios.clamp(max=c_bar)
    errors = rhos * (rewards + discounts * next_values - values)
    corrections = torch.empty_like(values)
    running = torch.zeros_like(values[0])
    following = next_values.clone()
    for t in range(len(values) - 1, -1, -1):
        following[t] += continues[t] * running
        running = errors[t] + discounts[t] * continues[t] * traces[t] * running
        corrections[t] = running
    advantages = rhos * (rewards + discounts * following - values)
    return VTrace(values + corrections, advantages)
