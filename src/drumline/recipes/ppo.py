"""PPO in lock-step, HTS-RL's synchronous rival: the same learner, environments and network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from drumline.envs.environment import Engine
from drumline.recipes.actor_critic import packages_with_network, with_inference_rows
from drumline.recipes.environment_families import (
    ALPHAS,
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL_IDS,
    PONG_IDS,
    with_alpha,
)
from drumline.recipes.lockstep import lockstep_recipe
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.ppo_presets import ATARI, CONTROL, FOOTBALL, PONG
from drumline.recipes.refused_values import (
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
    refuse_unusable_rollouts,
)
from drumline.recipes.shared_fields import ActorCriticFields, EpochFields
from drumline.training.layout import Layout, LockstepLayout
from drumline.training.rotation_run import RotationRecipe


@dataclass(frozen=True)
class PPO(EpochFields, ActorCriticFields):
    """PPO in lock-step (Schulman et al. 2017). Every field is an argument of the result."""

    learner: ClassVar[str] = "ppo"
    correction_used: ClassVar[str] = "ppo-ratio"

    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""

    LAYOUT: ClassVar[type[Layout]] = LockstepLayout
    ENGINE: ClassVar[Engine] = "envpool"
    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": {
            "total_steps": 100_000,
            "num_envs": 8,
            "alpha": 32,
            "learning_rate": 1e-3,
            "minibatches": 4,
            "renew_intervals": 128,
            "evaluate_every": 0,
        },
        "Pendulum-v1": {
            "total_steps": 300_000,
            "num_envs": 8,
            "learning_rate": 1e-3,
            "discount": 0.9,
            "renew_intervals": 64,
            "evaluate_every": 250,
        },
        **dict.fromkeys(CONTROL_IDS, CONTROL),
        **{env: with_alpha(CONTROL, alpha) for env, alpha in ALPHAS.items()},
        **dict.fromkeys(ATARI_IDS, ATARI),
        **dict.fromkeys(PONG_IDS, PONG),
        **dict.fromkeys(FOOTBALL_IDS, FOOTBALL),
    }
    VARIANTS: ClassVar[Mapping[str, Presets]] = {"atari": dict.fromkeys(PONG_IDS, ATARI)}

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_epochs(self)
        refuse_unusable_rollouts(self)
        refuse_uneven_minibatches(self)

    @property
    def steps_per_update(self) -> int:
        """Return how many env steps one update is made from."""
        return self.num_envs * self.alpha

    @property
    def intervals(self) -> int:
        """Return how many updates reach `total_steps`."""
        return -(-self.total_steps // self.steps_per_update)

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        return packages_with_network(self)

    def resolved(self) -> Self:
        """Return the config with the rows that keep the bits of the driver's forward pass."""
        return with_inference_rows(self, self.learner_threads)

    def build(self, layout: LockstepLayout) -> RotationRecipe:
        """Put the parts together."""
        return lockstep_recipe(self, layout)
