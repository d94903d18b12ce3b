"""Fields that several methods have: a method's own file has the rest, and what differs."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EnvironmentFields:
    """Fields of every method of Drumline's: what it trains on, and for how long."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    max_episode_steps: int = 0
    """Longest episode in env steps, in evaluations too; 0: as long as the environment lets it."""
    env_kwargs: str = ""
    """Arguments of the environment's constructor as JSON, as in '{"forward_reward_weight": 2}'."""
    flatten_observations: bool = False
    """Make one vector of observations in parts (Dict, Tuple, Discrete), as Gymnasium does."""
    start_from: str = ""
    """Begin with a trained policy: a run (its best policy) or a policy-*.safetensors file."""


@dataclass(frozen=True)
class ActorCriticFields(EnvironmentFields):
    """Fields of `hts`, `ppo`, `a2c` and `impala`, with the defaults of PPO."""

    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: EnvPool if it has the id, else Gymnasium."""
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


@dataclass(frozen=True)
class EpochFields:
    """Fields of PPO's update, of `ppo` and `hts`."""

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


@dataclass(frozen=True)
class ObjectiveFields:
    """Fields of `es`, `ars`, `cem` and `aes`, which may have an objective for an environment."""

    objective: str = ""
    """module:function of (parameters, seed) whose value is searched, in place of an environment."""
    dimensions: int = 0
    """--objective: number of parameters, which begin at 0."""
    initial: str = ""
    """--objective: module:function that returns the first parameters for a seed."""
    seeds_per_call: int = 1
    """--objective: seeds of one call, which returns as many values; their mean is the fitness."""
    working_precision: Literal["fp32", "bf16"] = "fp32"
    """--objective with --policy: of the module's tensors in a worker; the search's are float32."""
    trainable: str = ""
    """--objective with --policy: regular expression of the names of parameters to search; empty:
    all that require gradients."""


@dataclass(frozen=True)
class SearchFields(ObjectiveFields, EnvironmentFields):
    """Fields of `es`, `ars` and `cem`, which search over episodes or over calls of an objective."""

    env: str = ""
    """Gymnasium id, EnvPool id, or module:factory; empty with --objective."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""


@dataclass(frozen=True)
class CrossEntropyFields:
    """Fields of the search of `cem`, `cem-rl` and `p-cem-rl`."""

    population_size: int = 10
    """Individuals, and episodes, per generation."""
    elites: int = 5
    """K: individuals that make the next distribution."""
    initial_variance: float = 1e-3
    """Variance of each parameter at the start."""
    damp: float = 1e-3
    """ε at the start, added to the variance."""
    damp_limit: float = 1e-5
    """ε in the limit."""
    antithetic: bool = True
    """Whether members i and i + N/2 have opposite noise."""
    divide_by_elites: bool = True
    """Whether the variance is divided by K once more, as in CEM-RL's code."""


@dataclass(frozen=True)
class RefinementFields(EnvironmentFields):
    """Fields of `aes`, `cem-rl` and `p-cem-rl`, whose individuals a TD3 critic refines."""

    frame_skip: int = 1
    """Frames for which each action is repeated."""
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the hidden layers of actor and critics."""
    network: str = "mlp"
    """mlp, or package.module:Class of a torch.nn.Module of your own, for the actor."""
    scale_bytes: bool = True
    """Divide observations of bytes by 255."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the actor's hidden layers."""
    critic_activation: Literal["tanh", "relu", "leaky-relu"] = "leaky-relu"
    """Activation of the critics' hidden layers."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actors and critics."""
    discount: float = 0.99
    """Discount γ per env step."""
    polyak: float = 0.005
    """Share of the critics that enters their targets at each step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the forward and backward passes of gradient steps."""
    device: str = "cpu"
    """Device of gradient steps: cpu, cuda or cuda:N. Episodes stay on the cores. On GPU models
    other than those of docs/determinism.md a run carries no promise."""
    target_noise: float = 0.2
    """Std of the noise on target actions."""
    target_noise_clip: float = 0.5
    """Largest noise on target actions."""


@dataclass(frozen=True)
class ClockFields:
    """Fields of `aes` and `p-cem-rl`, whose results are handled in virtual time."""

    concurrency: int = 5
    """Logical workers: individuals that live at the same time."""
    clock: Literal["virtual", "wall"] = "virtual"
    """virtual: results are handled by virtual time, the same on every layout; wall: as they
    arrive."""
    replay_events: str = ""
    """With --clock wall: handle results in the order of this events.jsonl of an earlier run."""
    env_step_cost: int = 125_000
    """Virtual nanoseconds of an env step."""
    gradient_overhead_cost: int = 750_000
    """Virtual nanoseconds of a gradient step besides its arithmetic."""
    multiply_add_cost: int = 30
    """Virtual picoseconds of each multiply-add of a gradient step."""
    actor_step_cost: int = 0
    """Virtual nanoseconds of an actor's gradient step; 0: computed from networks, batch and the two
    costs above."""
    critic_step_cost: int = 0
    """Virtual nanoseconds of a critics' gradient step; 0: computed likewise."""
    least_env_steps: int = 1
    """Least env steps of an episode (1000 for HalfCheetah): lets results be handled sooner."""
