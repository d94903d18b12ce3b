"""IMPALA as a recipe: V-trace on a free-running schedule, HTS-RL's asynchronous rival."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Self

from drumline.envs.environment import Engine
from drumline.protocols import Learner
from drumline.recipes.actor_critic import (
    make_learner,
    packages_with_network,
    parts_of,
    with_inference_rows,
)
from drumline.recipes.environment_families import ATARI_IDS, CONTROL_IDS, FOOTBALL_IDS
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refused_values import refuse_nonpositive, refuse_unusable_rollouts
from drumline.recipes.shared_fields import ActorCriticFields
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.free_course import FreeCourse
from drumline.training.layout import ActorLayout, Layout
from drumline.training.rotation_run import RotationRecipe
from drumline.training.staff import Staff, counted

_CONTROL = {
    # Control tasks: what comes in is brought to scale.
    "normalize_observations": True,
    "scale_rewards": True,
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
    "evaluate_sample": True,
}
_FOOTBALL = {
    **_ATARI,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "discount": 0.993,
    # The paper trained with checkpoints; it reports scores, as every evaluation here does.
    "reward": "scoring-checkpoints",
    "clip_rewards": False,
    "evaluate_episodes": 10,
    "evaluate_sample": False,
    "renew_intervals": 3200,  # an EnvPool game of football is never freed: 44 MB each
}


@dataclass(frozen=True)
class Impala(ActorCriticFields):
    """IMPALA (Espeholt et al. 2018). Every field is an argument of the result, and so is time."""

    learner: ClassVar[str] = "a2c"
    correction_used: ClassVar[str] = "vtrace"
    unroll: ClassVar[int] = 0
    gae_lambda: ClassVar[float] = 1.0
    promise: ClassVar[bool] = False
    alpha: int = 20
    """Steps of an unroll."""
    device: str = "cpu"
    """Device of the learner, and of networks for images when acting: cpu, cuda or cuda:N.
    Environments and an acting mlp stay on the cores. A run on a GPU carries no promise."""
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 6e-4
    """Step size of the optimiser at the start."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus at the start."""
    evaluate_every: int = 1000
    """Updates between evaluations; 0: only at the end."""
    batch: int = 8
    """Unrolls that an update learns from; at most as many as there are environments."""

    LAYOUT: ClassVar[type[Layout]] = ActorLayout
    ENGINE: ClassVar[Engine] = "envpool"
    PRESETS: ClassVar[Presets] = {
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

    no_promise: ClassVar[str] = (
        "free running: the order in which unrolls end decides what an update learns"
    )

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_nonpositive(self, "batch", "num_envs", "learners")
        if self.batch > self.num_envs:
            raise ValueError(
                f"--batch {self.batch} unrolls is more than the {self.num_envs} environments: "
                "raise --num-envs or lower --batch"
            )
        if self.batch % self.learners:
            raise ValueError(f"--learners {self.learners} must divide --batch {self.batch}")
        refuse_unusable_rollouts(self)

    @property
    def steps_per_update(self) -> int:
        """Return how many env steps one update is made from."""
        return self.batch * self.alpha

    @property
    def intervals(self) -> int:
        """Return how many updates reach `total_steps`."""
        return -(-self.total_steps // self.steps_per_update)

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        return packages_with_network(self)

    def resolved(self) -> Self:
        """Return the config with the self-checks' findings."""
        return with_inference_rows(self)

    def build(self, layout: ActorLayout) -> RotationRecipe:
        """Put the parts together; the course scales rewards, not the learner."""
        executors = layout.executors_for(self.num_envs)
        parts = parts_of(self)
        actors = parts.actors(layout.actors)
        inline = layout.pool == "inline"
        words = counted(executors, "executor")
        if actors:
            words = f"{words}, {counted(actors, 'actor')}"
        words = "inline" if inline else f"{words}, free running"
        staff = Staff(
            executors,
            actors,
            inline,
            engine_threads=layout.engine_threads_beside(self.learner, executors),
            newest=True,
            words=words,
        )
        parts = replace(parts, config=replace(parts.config, scale_rewards=False))
        return RotationRecipe(parts, staff, partial(_course, self.scale_rewards), make_learner)


def _course(
    scale_rewards: bool, parts: ActorCriticParts, staff: Staff, updates: int, learner: Learner
) -> FreeCourse:
    return FreeCourse(parts, updates, learner, scale_rewards=scale_rewards)
