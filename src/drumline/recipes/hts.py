"""HTS-RL as a recipe: its config, its presets, and the parts that it puts together."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from drumline.protocols import Learner
from drumline.recipes import actor_critic
from drumline.recipes.actor_critic import ActorCriticParts, parts_of
from drumline.recipes.actor_critic_config import (
    EpochsConfig,
    SynchronousConfig,
    UnrollConfig,
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
)
from drumline.recipes.actor_critic_presets import (
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL,
    FOOTBALL_IDS,
    NORMALIZED,
)
from drumline.recipes.interval_course import IntervalCourse
from drumline.recipes.layout import RotationLayout
from drumline.recipes.refused_values import refuse_negative
from drumline.recipes.rotation import RotationRecipe
from drumline.recipes.staff import Staff, counted
from drumline.schedules.intervals import RotationPlan

METHOD = "hts"
CORRECTIONS = {
    "a2c": ("delayed", "none", "truncated-is", "vtrace"),
    "ppo": ("decoupled", "ppo-ratio", "delayed", "vtrace", "none"),
}
"""Legal corrections of each learner; the first is the default."""


@dataclass(frozen=True)
class HTS(EpochsConfig, UnrollConfig, SynchronousConfig):
    """HTS-RL (Liu et al. 2020). Every field is an argument of the result."""

    learner: Literal["a2c", "ppo"] = "ppo"
    """One gradient step per interval, or epochs of minibatches."""
    lag: Literal[0, 1] = 1
    """Policies between acting and learning: 1 overlaps them, 0 is on-policy without overlap."""
    correction: str = "auto"
    """a2c: delayed (the paper), none, truncated-is, vtrace; ppo: decoupled, ppo-ratio (what the
    release ran), delayed, vtrace, none; auto is the first of these, and ppo-ratio for ppo with
    --lag 0."""

    def __post_init__(self) -> None:
        refuse_unusable_epochs(self)
        refuse_negative(self, "unroll")
        legal = CORRECTIONS[self.learner]
        if self.correction not in ("auto", *legal):
            raise ValueError(
                f"--correction {self.correction!r} does not go with --learner {self.learner}: "
                f"legal are {', '.join(legal)}"
            )
        SynchronousConfig.__post_init__(self)
        if self.learner == "ppo":
            refuse_uneven_minibatches(self, self.minibatches)

    @property
    def correction_used(self) -> str:
        """Return the correction, resolved."""
        if self.correction != "auto":
            return self.correction
        on_policy = self.learner == "ppo" and self.lag == 0
        return "ppo-ratio" if on_policy else CORRECTIONS[self.learner][0]


def resolve(config: HTS) -> HTS:
    """Return the config with what the self-checks found and the correction by name.

    So that a run goes on with its own correction wherever the default has changed since.
    """
    return replace(actor_critic.resolve(config), correction=config.correction_used)


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (hts, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


_CONTROL = {
    **NORMALIZED,
    "renew_intervals": 32,
    "evaluate_every": 250,
    "evaluate_episodes": 10,
}
_ATARI = {
    "network": "nature-cnn",
    "learner_threads": 2,  # ppo's epochs outlast the simulation; a2c is faster with 1 (measured)
    "total_steps": 10_000_000,
    "learning_rate": 2.5e-4,
    "epochs": 4,
    "minibatches": 4,
    "clip": 0.1,
    "clip_values": True,
    "entropy_coefficient": 0.01,
    "clip_rewards": True,
    "renew_intervals": 256,
    "evaluate_every": 500,
    "evaluate_episodes": 4,
}
_FOOTBALL = {
    **_ATARI,
    **FOOTBALL,
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "learning_rate": 3.43e-4,
    "discount": 0.993,
    "epochs": 2,
    "minibatches": 8,
    "clip": 0.08,
    "entropy_coefficient": 0.003,
    "max_gradient_norm": 0.64,
    "renew_intervals": 512,  # an EnvPool game of football is never freed: 44 MB each
    "evaluate_every": 250,
}

PRESETS: dict[str, dict[str, Any]] = {
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
    **dict.fromkeys(CONTROL_IDS, _CONTROL),
    **dict.fromkeys(ATARI_IDS, _ATARI),
    **dict.fromkeys(FOOTBALL_IDS, _FOOTBALL),
}


def build(config: HTS, layout: RotationLayout) -> RotationRecipe:
    """Put the parts together; names become functions here and nowhere else."""
    executors = layout.executors_for(config.num_envs)
    words = counted(executors, "executor")
    if layout.actors:
        words = f"{words}, {counted(layout.actors, 'actor')}"
    inline = layout.pool == "inline"
    staff = Staff(
        executors,
        layout.actors,
        inline,
        engine_threads=layout.engine_threads_beside(config.learner, executors),
        words="inline" if inline else words,
    )
    return RotationRecipe(METHOD, parts_of(config), staff, partial(_course, layout.barrier))


def _course(
    barrier: Literal["sliding", "hard"],
    parts: ActorCriticParts,
    staff: Staff,
    updates: int,
    learner: Learner,
) -> IntervalCourse:
    plan = RotationPlan(parts.config.alpha, updates, parts.config.lag, barrier)
    return IntervalCourse(parts, staff, plan, learner)
