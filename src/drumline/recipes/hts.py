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
    with_alpha,
)
from drumline.recipes.method import GoesWith, Presets, PresetsWith
from drumline.recipes.named_objects import name_objects
from drumline.recipes.ppo_presets import ATARI, CONTROL, FOOTBALL
from drumline.recipes.refused_values import (
    refuse_device_of_groups,
    refuse_negative,
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
    refuse_unusable_rollouts,
)
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
class HTS:
    """HTS-RL (Liu et al. 2020). Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: EnvPool if it has the id, else Gymnasium."""
    max_episode_steps: int = 0
    """Longest episode in env steps, in evaluations too; 0: as long as the environment lets it."""
    env_kwargs: str = ""
    """Arguments of the environment's constructor as JSON, as in '{"forward_reward_weight": 2}'."""
    flatten_observations: bool = False
    """Make one vector of observations in parts (Dict, Tuple, Discrete), as Gymnasium does."""
    num_envs: int = 16
    """Environments that run side by side."""
    alpha: int = 128
    """Steps of each environment between two synchronisations."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the network's forward and backward passes."""
    device: str = "cpu"
    """Device of the learner, and of networks for images when acting: cpu, cuda or cuda:N.
    Environments and an acting mlp stay on the cores. On GPU models other than those of
    docs/determinism.md a run carries no promise."""
    learners: int = 1
    """Shards of the environments whose gradients are computed apart and added in order."""
    learner_threads: int = 1
    """Threads of the learner, each with a microbatch; `ppo` and `a2c` in one process also use them
    for the forward passes when acting."""
    reward: Literal["scoring", "scoring-checkpoints"] = "scoring"
    """Football: reward for goals alone, or also for the way to the goal. No effect on other
    games."""
    network: str = "auto"
    """auto: nature-cnn for images of bytes with 1, 3 or 4 channels, 36 x 36 or larger, else mlp;
    mlp, nature-cnn, football-cnn, impala-resnet, or package.module:Class."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of mlp."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 3e-4
    """Step size of the optimiser at the start."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the run."""
    discount: float = 0.99
    """Discount γ per env step."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus at the start."""
    final_entropy_coefficient: float | None = None
    """Weight of the entropy bonus at the end, reached linearly; left out: it stays constant."""
    max_gradient_norm: float = 0.5
    """Largest norm of a gradient; a longer one is scaled down to it."""
    normalize_observations: bool = False
    """Normalise observations by the running moments that travel with each version."""
    scale_rewards: bool = False
    """Divide rewards by the running std of discounted returns."""
    clip_rewards: bool = False
    """Learn from the sign of rewards, as is usual for Atari."""
    inference_rows: int = -1
    """Rows of every forward pass when acting, 0 for any number: a self-check finds (-1) how many
    keep a row's bits, and a run goes on only where it finds the same."""
    renew_intervals: int = -1
    """EnvPool only: intervals after which every environment is made anew, which cuts running
    episodes; 0: never; -1: by the environment's speed, so that a restore steps at most 1,000,000
    env steps and takes about 45 seconds, with at least 1,000 steps of each environment."""
    truncations_per_interval: int = 0
    """Time limits that one environment may meet in one interval; 0: as many as it can, and
    without a known limit as many as fit in 16 MB, at least 4."""
    step_time: str = ""
    """Make environments slow by a law, as in exponential:5ms."""
    evaluate_every: int = 50
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    evaluate_sample: bool = False
    """Draw the actions of evaluations as in training, instead of the most likely ones (Atari's
    presets do; some games wait for a button that the most likely action never presses)."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation; with --learner a2c of --unroll 0 and V-trace alone."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""
    unroll: int = 0
    """a2c: steps of an n-step return; 0: generalized advantage estimation. V-trace goes to the
    interval's end."""
    epochs: int = 10
    """ppo: passes over an interval's data."""
    minibatches: int = 32
    """ppo: steps per pass."""
    clip: float = 0.2
    """ppo: clip range of the ratio, at the start."""
    anneal_clip: bool = False
    """ppo: let the clip range fall linearly to 0 over the run."""
    clip_values: bool = False
    """ppo: clip the value loss by the same range."""
    normalize_advantages: bool = True
    """ppo: give each minibatch's advantages mean 0 and std 1."""
    target_kl: float = 0.0
    """ppo: end an update before a minibatch whose KL exceeds 1.5 times this; 0: never."""
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
        **dict.fromkeys(FOOTBALL_IDS, FOOTBALL),
    }
    PRESETS_WITH: ClassVar[PresetsWith] = {("learner", "a2c"): _preset_of_a2c}
    GOES_WITH: ClassVar[GoesWith] = {"correction": ("lag", ("1",))}
    VARIANTS: ClassVar[Mapping[str, Presets]] = {
        # The release's interval of 128 steps, and the truncated weights.
        "paper": dict.fromkeys(ALPHAS, CONTROL),
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
