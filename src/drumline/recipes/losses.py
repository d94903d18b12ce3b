"""Losses of the actor-critic methods with the coefficients of a config."""

from collections.abc import Callable
from functools import partial

from drumline.functional.annealing import linear
from drumline.functional.losses import (
    Baseline,
    LossOfInterval,
    a2c_loss,
    ppo_loss,
    reinforce_loss,
)
from drumline.recipes.families import ActorCritic, Epochs


def a2c_loss_of(config: ActorCritic) -> LossOfInterval:
    """Return A2C's loss with a config's coefficients."""
    bonus = entropy_coefficient_of(config)
    if baseline_of(config) == "none":
        return lambda interval: partial(reinforce_loss, entropy_coefficient=bonus(interval))
    return lambda interval: partial(
        a2c_loss,
        value_coefficient=config.value_coefficient,
        entropy_coefficient=bonus(interval),
    )


def baseline_of(config: ActorCritic) -> Baseline:
    """Return the baseline of A2C's advantages: a critic's, but where `a2c` has a flag for it."""
    return getattr(config, "baseline", "critic")


def ppo_loss_of(config: Epochs) -> LossOfInterval:
    """Return PPO's loss with a config's coefficients."""
    bonus = entropy_coefficient_of(config)
    clip = linear(config.clip, 0.0 if config.anneal_clip else config.clip, config.intervals)
    return lambda interval: partial(
        ppo_loss,
        clip=clip(interval),
        value_clip=clip(interval) if config.clip_values else None,
        value_coefficient=config.value_coefficient,
        entropy_coefficient=bonus(interval),
    )


def entropy_coefficient_of(config: ActorCritic) -> Callable[[int], float]:
    """Return the function interval → weight of the entropy bonus."""
    start, end = config.entropy_coefficient, config.final_entropy_coefficient
    return linear(start, start if end is None else end, config.intervals)
