"""PPO in lock-step, HTS-RL's synchronous rival: the same learner, environments and network."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from drumline.envs.environment import Engine
from drumline.recipes.actor_critic import packages_with_network, with_inference_rows
from drumline.recipes.environment_families import (
    ALPHAS,
    ATARI_IDS,
    CONTROL_IDS,
    FOOTBALL_IDS,
    with_alpha,
)
from drumline.recipes.lockstep import lockstep_recipe
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.ppo_presets import ATARI, CONTROL, FOOTBALL
from drumline.recipes.refused_values import (
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
    refuse_unusable_rollouts,
)
from drumline.training.layout import Layout, LockstepLayout
from drumline.training.rotation_run import RotationRecipe


@dataclass(frozen=True)
class PPO:
    """PPO in lock-step (Schulman et al. 2017). Every field is an argument of the result."""

    learner: ClassVar[str] = "ppo"
    correction_used: ClassVar[str] = "ppo-ratio"
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
    """λ of generalized advantage estimation."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""
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
        **dict.fromkeys(FOOTBALL_IDS, FOOTBALL),
    }

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
