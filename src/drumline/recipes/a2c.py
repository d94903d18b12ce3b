"""A2C in lock-step, HTS-RL's other synchronous rival."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from drumline.envs.environment import Engine
from drumline.recipes.actor_critic import packages_with_network, with_inference_rows
from drumline.recipes.environment_families import ATARI_IDS, CONTROL_IDS, FOOTBALL_IDS
from drumline.recipes.lockstep import lockstep_recipe
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refused_values import refuse_negative, refuse_unusable_rollouts
from drumline.recipes.shared_fields import ActorCriticFields
from drumline.training.layout import Layout, LockstepLayout
from drumline.training.rotation_run import RotationRecipe

_CONTROL = {
    # Control tasks: what comes in is brought to scale.
    "normalize_observations": True,
    "scale_rewards": True,
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
    "evaluate_sample": True,
}
_FOOTBALL = {
    **_ATARI,
    # The paper trained with checkpoints; it reports scores, as every evaluation here does.
    "reward": "scoring-checkpoints",
    "clip_rewards": False,
    "evaluate_episodes": 10,
    "evaluate_sample": False,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "discount": 0.993,
    "renew_intervals": 12_800,  # an EnvPool game of football is never freed: 44 MB each
}


@dataclass(frozen=True)
class A2C(ActorCriticFields):
    """A2C in lock-step (Mnih et al. 2016). Every field is an argument of the result."""

    learner: ClassVar[str] = "a2c"
    correction_used: ClassVar[str] = "none"
    alpha: int = 5
    """Steps of each environment between two updates."""
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 7e-4
    """Step size of the optimiser at the start."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus at the start."""
    evaluate_every: int = 1000
    """Updates between evaluations; 0: only at the end."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation, which is that of --unroll 0."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""
    unroll: int = 5
    """Steps of an n-step return; 0: generalized advantage estimation."""
    baseline: Literal["critic", "none"] = "critic"
    """none: REINFORCE (Williams 1992), rewards to the end of the episode or of the interval, no
    critic: --unroll, --gae-lambda and --value-coefficient have no effect."""

    LAYOUT: ClassVar[type[Layout]] = LockstepLayout
    ENGINE: ClassVar[Engine] = "envpool"
    PRESETS: ClassVar[Presets] = {
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

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_negative(self, "unroll")
        refuse_unusable_rollouts(self)

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
