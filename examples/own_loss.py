"""PPO with a KL penalty in place of clipping: a loss of one's own on the overlapped schedule.

    cd examples && drumline train own_loss:KLPenaltyPPO CartPole-v1

Schulman, Wolski, Dhariwal, Radford & Klimov, *Proximal policy optimization algorithms* (2017), §4,
eq. 8 with a fixed β. Of a row with the action a, the advantage A and the log-ratio
ℓ = log π(a|x) − log π_old(a|x), the loss is

    L = −exp(ℓ) A + β k₃ + c_v ½ (V − R)² − c_H H,        k₃ = (exp(ℓ) − 1) − ℓ

k₃ estimates KL[π_old, π] (Schulman, *Approximating KL divergence*, 2020): it is unbiased where
π_old chose the actions, and never negative. The derivatives by what the network gives:

    ∂L/∂log π = −exp(ℓ) A + β (exp(ℓ) − 1),        ∂L/∂V = c_v (V − R),        ∂L/∂H = −c_H

The penalty pulls the ratio exp(ℓ) of a row back to 1, the harder the further it has moved; clipping
takes the row out of the gradient instead. With `--lag 1 --correction truncated-is`, the default,
π_old is the policy at the start of the update, and the actions come from the one before it. A is
weighted for that and k₃ is not: its mean is then close to the KL divergence, and 0 still where
π = π_old.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from drumline.functional.losses import LossOfInterval, LossRows, LossTerms
from drumline.recipes.actor_critic import make_learner
from drumline.recipes.hts import HTS
from drumline.recipes.losses import entropy_coefficient_of
from drumline.recipes.refused_values import refuse_negative
from drumline.training.layout import RotationLayout
from drumline.training.rotation_run import RotationRecipe


@dataclass(frozen=True)
class KLPenaltyPPO(HTS):
    """PPO with a KL penalty on HTS-RL's schedule. Every field is an argument of the result."""

    kl_penalty: float = 3.0
    """β: the larger, the closer the policy stays; 0: nothing limits how far it moves."""
    clip: float = 0.2
    """Without effect here, as are --anneal-clip and --clip-values: nothing is clipped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_negative(self, "kl_penalty")
        if self.learner != "ppo":
            raise ValueError(f"--learner must be ppo, whose loss this is, got {self.learner}")

    def build(self, layout: RotationLayout) -> RotationRecipe:
        """Take HTS-RL's parts, and give its learner another loss."""
        return replace(super().build(layout), learner=partial(make_learner, loss_of=loss_of))


def loss_of(config: KLPenaltyPPO) -> LossOfInterval:
    """Return interval → the loss, with the coefficients that the interval has."""
    bonus = entropy_coefficient_of(config)
    return lambda interval: partial(
        kl_penalty_loss,
        kl_penalty=config.kl_penalty,
        value_coefficient=config.value_coefficient,
        entropy_coefficient=bonus(interval),
    )


def kl_penalty_loss(
    rows: LossRows,
    divisor: int,
    *,
    kl_penalty: float,
    value_coefficient: float,
    entropy_coefficient: float,
) -> LossTerms:
    """Return the loss of these rows and its derivatives, all divided by `divisor`.

    `policy_loss` is the mean of −exp(ℓ) A + β k₃. Drumline adds k₃ alone, `approximate_kl_nats`.
    """
    log_ratios = rows.log_probs - rows.old_log_probs
    apart = np.expm1(log_ratios)  # exp(ℓ) − 1: subtracted from exp(ℓ), a small ℓ would lose digits
    gains = (apart + 1) * rows.advantages
    penalties = kl_penalty * (apart - log_ratios)
    errors = rows.values - rows.returns
    return LossTerms(
        {
            "policy_loss": float(np.add.reduce(penalties - gains)) / divisor,
            "value_loss": 0.5 * float(np.add.reduce(errors * errors)) / divisor,
        },
        d_log_probs=(kl_penalty * apart - gains) / divisor,
        d_values=errors * (value_coefficient / divisor),
        d_entropies=np.float32(-entropy_coefficient / divisor),
    )
