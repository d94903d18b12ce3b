"""IMPALA as a recipe: V-trace on a free-running schedule, HTS-RL's asynchronous rival."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

from drumline.protocols import Learner
from drumline.recipes.actor_critic import ActorCriticParts, parts_of
from drumline.recipes.actor_critic_config import ActorCriticConfig
from drumline.recipes.actor_critic_presets import (
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL,
    FOOTBALL_IDS,
    NORMALIZED,
)
from drumline.recipes.free_course import FreeCourse
from drumline.recipes.layout import ActorLayout
from drumline.recipes.refused_values import refuse_nonpositive
from drumline.recipes.rotation import RotationRecipe
from drumline.recipes.staff import Staff, counted

METHOD = "impala"
NO_PROMISE = "free running: who is quick decides what an update learns from"


@dataclass(frozen=True)
class Impala(ActorCriticConfig):
    """IMPALA (Espeholt et al. 2018). Every field is an argument of the result, and so is time."""

    learner: ClassVar[str] = "a2c"
    correction_used: ClassVar[str] = "vtrace"
    unroll: ClassVar[int] = 0
    gae_lambda: ClassVar[float] = 1.0
    promise: ClassVar[bool] = False

    alpha: int = 20
    """Steps of an unroll."""
    batch: int = 8
    """Unrolls that an update learns from; at most as many as there are environments."""
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 6e-4
    """Step size of the optimiser at the start."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus at the start."""
    evaluate_every: int = 1000
    """Updates between evaluations; 0: only at the end."""

    def __post_init__(self) -> None:
        refuse_nonpositive(self, "batch", "num_envs", "learners")
        if self.batch > self.num_envs:
            raise ValueError(
                f"--batch {self.batch} unrolls is more than the {self.num_envs} environments: "
                "raise --num-envs or lower --batch"
            )
        if self.batch % self.learners:
            raise ValueError(f"--learners {self.learners} must divide --batch {self.batch}")
        super().__post_init__()

    @property
    def steps_per_update(self) -> int:
        """Return how many env steps one update is made from."""
        return self.batch * self.alpha


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (impala, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


def build(config: Impala, layout: ActorLayout) -> RotationRecipe:
    """Put the parts together; rewards are scaled where they are taken, not by the learner."""
    executors = layout.executors_for(config.num_envs)
    inline = layout.pool == "inline"
    words = counted(executors, "executor")
    if layout.actors:
        words = f"{words}, {counted(layout.actors, 'actor')}"
    words = "inline" if inline else f"{words}, free running"
    staff = Staff(
        executors,
        layout.actors,
        inline,
        engine_threads=layout.engine_threads_beside(config.learner, executors),
        newest=True,
        words=words,
    )
    parts = parts_of(config)
    parts = replace(parts, config=replace(parts.config, scale_rewards=False))
    return RotationRecipe(METHOD, parts, staff, partial(_course, config.scale_rewards))


def _course(
    scale_rewards: bool, parts: ActorCriticParts, staff: Staff, updates: int, learner: Learner
) -> FreeCourse:
    return FreeCourse(parts, updates, learner, scale_rewards=scale_rewards)


_CONTROL = {
    **NORMALIZED,
    "entropy_coefficient": 0.0,
    "renew_intervals": 200,
    "evaluate_every": 3000,
    "evaluate_episodes": 10,
}
_ATARI = {
    "network": "nature-cnn",
    "total_steps": 10_000_000,
    "clip_rewards": True,
    "renew_intervals": 1600,
    "evaluate_every": 6000,
    "evaluate_episodes": 4,
}
_FOOTBALL = {
    **_ATARI,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "discount": 0.993,
    **FOOTBALL,
    "renew_intervals": 3200,  # an EnvPool game of football is never freed: 44 MB each
}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "total_steps": 500_000,
        "num_envs": 8,
        "batch": 4,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "renew_intervals": 200,
        "evaluate_every": 0,
    },
    **dict.fromkeys(CONTROL_IDS, _CONTROL),
    **dict.fromkeys(ATARI_IDS, _ATARI),
    **dict.fromkeys(FOOTBALL_IDS, _FOOTBALL),
}
