"""A2C in lock-step, HTS-RL's other synchronous rival."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from drumline.recipes.actor_critic_config import SynchronousConfig, UnrollConfig
from drumline.recipes.actor_critic_presets import (
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL,
    FOOTBALL_IDS,
    NORMALIZED,
)
from drumline.recipes.layout import LockstepLayout
from drumline.recipes.lockstep import lockstep_recipe
from drumline.recipes.refused_values import refuse_negative
from drumline.recipes.rotation import RotationRecipe

METHOD = "a2c"


@dataclass(frozen=True)
class A2C(UnrollConfig, SynchronousConfig):
    """A2C in lock-step (Mnih et al. 2016). Every field is an argument of the result."""

    learner: ClassVar[str] = "a2c"
    correction_used: ClassVar[str] = "none"

    alpha: int = 5
    """Steps of each environment between two updates."""
    unroll: int = 5
    """Steps of an n-step return; 0: generalized advantage estimation."""
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 7e-4
    """Step size of the optimiser at the start."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus at the start."""
    evaluate_every: int = 1000
    """Updates between evaluations; 0: only at the end."""

    def __post_init__(self) -> None:
        refuse_negative(self, "unroll")
        SynchronousConfig.__post_init__(self)


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (a2c, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


def build(config: A2C, layout: LockstepLayout) -> RotationRecipe:
    """Put the parts together."""
    return lockstep_recipe(METHOD, config, layout)


_CONTROL = {
    **NORMALIZED,
    "alpha": 8,
    "unroll": 0,
    "gae_lambda": 0.9,
    "entropy_coefficient": 0.0,
    "renew_intervals": 512,
    "evaluate_every": 4000,
    "evaluate_episodes": 10,
}
_ATARI = {
    "network": "nature-cnn",
    "total_steps": 10_000_000,
    "clip_rewards": True,
    "learner_threads": 2,
    "renew_intervals": 6400,
    "evaluate_every": 12_500,
    "evaluate_episodes": 4,
}
_FOOTBALL = {
    **_ATARI,
    **FOOTBALL,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "discount": 0.993,
    "renew_intervals": 12_800,  # an EnvPool game of football is never freed: 44 MB each
}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "total_steps": 500_000,
        "num_envs": 8,
        "unroll": 0,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "entropy_coefficient": 0.0,
        "renew_intervals": 800,
        "evaluate_every": 0,
    },
    **dict.fromkeys(CONTROL_IDS, _CONTROL),
    **dict.fromkeys(ATARI_IDS, _ATARI),
    **dict.fromkeys(FOOTBALL_IDS, _FOOTBALL),
}
