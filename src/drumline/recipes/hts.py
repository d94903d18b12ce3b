"""HTS-RL as a recipe: its config, its presets and its parts."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import ClassVar, Literal, Self

from drumline.envs.environment import Engine
from drumline.protocols import Learner
from drumline.recipes.a2c import A2C
from drumline.recipes.actor_critic import (
    make_learner,
    packages_with_network,
    parts_of,
    with_inference_rows,
)
from drumline.recipes.core_shares import all_cores_step
from drumline.recipes.environment_families import (
    ALPHAS,
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL_IDS,
    PONG_IDS,
    with_alpha,
)
from drumline.recipes.method import GoesWith, Presets, PresetsWith
from drumline.recipes.named_objects import name_objects
from drumline.recipes.ppo_presets import ATARI, CONTROL, FOOTBALL, PONG
from drumline.recipes.refused_values import (
    refuse_device_of_groups,
    refuse_negative,
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
    refuse_unusable_rollouts,
)
from drumline.recipes.shared_fields import ActorCriticFields, EpochFields
from drumline.schedules.intervals import RotationPlan
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.interval_course import IntervalCourse
from drumline.training.layout import Layout, RotationLayout
from drumline.training.rotation_run import RotationRecipe
from drumline.training.staff import Staff, counted

CORRECTIONS = {
    "a2c": ("delayed", "none", "truncated-is", "vtrace"),
    "ppo": ("truncated-is", "decoupled", "ppo-ratio", "delayed", "vtrace", "none"),
}
"""Legal corrections of each learner; the first is the default."""
_COMPARED_WITH_BEHAVIOR = ("ppo-ratio", "vtrace")
"""Corrections whose ratios, and so whose KL, are against the policy that acted."""


def _preset_of_a2c(env: str) -> Mapping[str, object]:
    """Return lock-step A2C's settings: one gradient step an interval needs short intervals."""
    own = {field.name for field in fields(HTS)}
    defaults = {
        field.name: field.default
        for field in fields(A2C)
        if field.name in own and field.default is not MISSING
    }
    # Here the learner's passes have a process of their own, and one thread is faster (measured).
    return {**defaults, **A2C.PRESETS.get(env, {}), "learner_threads": 1}


@dataclass(frozen=True)
class HTS(EpochFields, ActorCriticFields):
    """HTS-RL (Liu et al. 2020). Every field is an argument of the result."""

    gae_lambda: float = 0.95
    """λ of generalized advantage estimation; with --learner a2c of --unroll 0 and V-trace alone."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""
    unroll: int = 0
    """a2c: steps of an n-step return; 0: generalized advantage estimation. V-trace goes to the
    interval's end."""
    learner: Literal["a2c", "ppo"] = "ppo"
    """One gradient step per interval, or epochs of minibatches. Beside a2c every other setting
    begins with that of `a2c`."""
    lag: Literal[0, 1] = 1
    """Policy updates between acting and learning: 1 overlaps them, 0 is on-policy without
    overlap."""
    correction: str = "auto"
    """a2c: delayed (the paper), none, truncated-is, vtrace; ppo: truncated-is, decoupled,
    ppo-ratio (what the release ran), delayed, vtrace, none; auto is the first of these, and
    ppo-ratio for ppo with --lag 0."""

    LAYOUT: ClassVar[type[Layout]] = RotationLayout
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
        **{
            env: {**with_alpha(CONTROL, alpha), "correction": "decoupled"}
            for env, alpha in ALPHAS.items()
        },
        **dict.fromkeys(ATARI_IDS, ATARI),
        **dict.fromkeys(PONG_IDS, PONG),
        **dict.fromkeys(FOOTBALL_IDS, FOOTBALL),
    }
    PRESETS_WITH: ClassVar[PresetsWith] = {("learner", "a2c"): _preset_of_a2c}
    GOES_WITH: ClassVar[GoesWith] = {"correction": ("lag", ("1",))}
    VARIANTS: ClassVar[Mapping[str, Presets]] = {
        # The release's interval of 128 steps, and the truncated weights.
        "paper": dict.fromkeys(ALPHAS, CONTROL),
        "atari": dict.fromkeys(PONG_IDS, ATARI),
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_epochs(self)
        refuse_negative(self, "unroll")
        legal = CORRECTIONS[self.learner]
        if self.correction not in ("auto", *legal):
            raise ValueError(
                f"--correction {self.correction!r} does not go with --learner {self.learner}: give "
                f"one of {', '.join(legal)}"
            )
        refuse_unusable_rollouts(self)
        if self.learner == "ppo":
            refuse_uneven_minibatches(self)
            if self.target_kl and self.lag and self.correction_used in _COMPARED_WITH_BEHAVIOR:
                raise ValueError(
                    f"--target-kl is a distance from the policy that acted with --correction "
                    f"{self.correction_used}, one update ago: an interval could end before its "
                    "first step. Give --correction decoupled, or leave --target-kl out"
                )

    @property
    def correction_used(self) -> str:
        """Return the correction, resolved."""
        if self.correction != "auto":
            return self.correction
        on_policy = self.learner == "ppo" and self.lag == 0
        return "ppo-ratio" if on_policy else CORRECTIONS[self.learner][0]

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
        """Return the config with the self-checks' findings and the correction by name.

        A resumed run therefore keeps its correction, even where the default has changed since.
        """
        return replace(with_inference_rows(self), correction=self.correction_used)

    def build(self, layout: RotationLayout) -> RotationRecipe:
        """Put the parts together; only here do names become functions."""
        refuse_device_of_groups(self, layout)
        environments = layout.environments_of_a_group(self.num_envs, self.learners)
        parts = parts_of(self)
        inline = layout.pool == "inline"
        shared = not inline and all_cores_step(parts, layout.cores, layout.nodes)
        count = layout.executors_on_all_cores if shared else layout.executors_for
        executors = count(environments)
        actors = parts.actors(layout.actors)
        words = counted(executors, "executor")
        if actors:
            words = f"{words}, {counted(actors, 'actor')}"
        staff = Staff(
            executors,
            actors,
            inline,
            engine_threads=layout.engine_threads_beside(self.learner, executors),
            words="inline" if inline else layout.in_words(words),
            groups=layout.nodes,
        )
        return RotationRecipe(parts, staff, partial(_course, layout.barrier), make_learner)


def _course(
    barrier: Literal["sliding", "hard"],
    parts: ActorCriticParts,
    staff: Staff,
    updates: int,
    learner: Learner,
) -> IntervalCourse:
    plan = RotationPlan(parts.config.alpha, updates, parts.config.lag, barrier)
    return IntervalCourse(parts, staff, plan, learner)
