"""The settings that every actor-critic method has, and PPO's own."""

from dataclasses import dataclass
from typing import Literal

from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_outside_unit


@dataclass(frozen=True)
class ActorCriticConfig:
    """Environments, network and loss. Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: EnvPool if it has the id, else Gymnasium."""
    num_envs: int = 16
    """Environments that run side by side."""
    alpha: int = 128
    """Steps of each environment between two synchronisations."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the network's forward and backward passes."""
    learners: int = 1
    """Shards of the environments whose gradients are computed apart and added in order."""
    learner_threads: int = 1
    """Threads of the learner: microbatches at once; of `ppo` and `a2c` in one process also of their
    forward passes when acting."""
    reward: Literal["scoring", "scoring-checkpoints"] = "scoring"
    """Football: pay for goals alone, or for the way to the goal too. Others pay what they pay."""
    network: str = "mlp"
    """mlp, nature-cnn, football-cnn, impala-resnet, or package.module:Class."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of mlp."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 3e-4
    """Step size of the optimiser at the start."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the run."""
    discount: float = 0.99
    """γ."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus at the start."""
    final_entropy_coefficient: float | None = None
    """Weight that the entropy bonus goes to linearly over the run; left out: it stays."""
    max_gradient_norm: float = 0.5
    """Every gradient is scaled down to this norm."""
    normalize_observations: bool = False
    """Normalise observations by the running moments that travel with each version."""
    scale_rewards: bool = False
    """Divide rewards by the running std of discounted returns."""
    clip_rewards: bool = False
    """Learn from the sign of rewards, as is usual for Atari."""
    inference_rows: int = -1
    """Rows of every forward pass when acting, 0 for any number: a self-check finds (-1) how many
    keep a row's bits, and a run goes on only where it finds the same."""
    renew_intervals: int = 0
    """EnvPool only: make every environment anew before each interval that this divides."""
    truncations_per_interval: int = 0
    """How many time limits one environment may meet in one interval; 0: as many as fit in 16 MB,
    at least 4."""
    step_time: str = ""
    """Make environments slow by a law, as in exponential:5ms."""
    evaluate_every: int = 50
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""

    def __post_init__(self) -> None:
        positive = ["total_steps", "num_envs", "alpha", "learners", "learner_threads"]
        refuse_nonpositive(self, *positive, "learning_rate", "max_gradient_norm")
        refuse_nonpositive(self, "evaluate_episodes")
        refuse_negative(self, "value_coefficient", "entropy_coefficient")
        if self.final_entropy_coefficient is not None:
            refuse_negative(self, "final_entropy_coefficient")
        refuse_negative(self, "renew_intervals", "truncations_per_interval", "evaluate_every")
        refuse_outside_unit(self, "discount")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"--hidden needs layers of 1 or more, got {self.hidden}")
        if self.scale_rewards and self.clip_rewards:
            raise ValueError(
                "--scale-rewards and --clip-rewards both change what is learned from: leave one "
                "out, as in --scale-rewards --no-clip-rewards"
            )
        if self.num_envs % self.learners:
            raise ValueError(
                f"--learners {self.learners} must divide the {self.num_envs} environments"
            )
        if self.total_steps < self.steps_per_update:
            raise ValueError(
                f"--total-steps {self.total_steps} is less than the {self.steps_per_update} env "
                "steps that one update is made from"
            )

    @property
    def steps_per_update(self) -> int:
        """Return how many env steps one update is made from."""
        return self.num_envs * self.alpha

    @property
    def intervals(self) -> int:
        """Return how many updates reach `total_steps`."""
        return -(-self.total_steps // self.steps_per_update)


@dataclass(frozen=True)
class SynchronousConfig(ActorCriticConfig):
    """What methods have besides whose updates are made from whole intervals, in order."""

    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""

    def __post_init__(self) -> None:
        ActorCriticConfig.__post_init__(self)
        refuse_outside_unit(self, "gae_lambda")


@dataclass(frozen=True)
class UnrollConfig:
    """What A2C takes besides."""

    unroll: int = 0
    """a2c: steps of an n-step return; 0: generalized advantage estimation."""


@dataclass(frozen=True)
class EpochsConfig:
    """What PPO takes besides."""

    epochs: int = 10
    """ppo: passes over an interval's data."""
    minibatches: int = 32
    """ppo: steps per pass."""
    clip: float = 0.2
    """ppo: how far the ratio may move, at the start."""
    anneal_clip: bool = False
    """ppo: let that fall linearly to 0 over the run."""
    clip_values: bool = False
    """ppo: clip the value loss alike."""
    normalize_advantages: bool = True
    """ppo: give each minibatch's advantages mean 0 and std 1."""
    target_kl: float = 0.0
    """ppo: end an update when a minibatch's KL exceeds 1.5 times this; 0: never."""


def refuse_unusable_epochs(config: EpochsConfig) -> None:
    """Raise for values of PPO's own that could never work."""
    refuse_nonpositive(config, "epochs", "minibatches", "clip")
    refuse_negative(config, "target_kl")


def refuse_uneven_minibatches(config: ActorCriticConfig, minibatches: int) -> None:
    """Raise if the rows of a shard cannot be dealt evenly."""
    rows = config.num_envs // config.learners * config.alpha
    if rows % minibatches:
        raise ValueError(
            f"--minibatches {minibatches} must divide the {rows} rows of "
            f"{'each shard' if config.learners > 1 else 'an interval'} "
            "(num_envs / learners × alpha)"
        )
