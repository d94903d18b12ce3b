"""HTS-RL as a recipe: its config, its presets, and the parts that it puts together."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from drumline import seeding
from drumline.buffers.rollout import RolloutShape
from drumline.envs.lanes import LanesSpec
from drumline.envs.make import EnvironmentSpec, resolve_engine
from drumline.envs.packages import environment_packages, top_package
from drumline.envs.timing import parse_step_time
from drumline.policies.actions import ActionHead, head_for
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.recipes.layout import RotationLayout
from drumline.recipes.rotation import RotationRecipe
from drumline.recipes.searched_policy import refuse_nonpositive
from drumline.schedules.overlapped import RotationPlan

METHOD = "hts"
CORRECTIONS = {
    "a2c": ("delayed", "none", "truncated-is", "vtrace"),
    "ppo": ("ppo-ratio", "delayed", "vtrace", "none"),
}
"""Legal corrections of each learner; the first is the default."""


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
    learner: Literal["a2c", "ppo"] = "ppo"
    """One gradient step per interval, or epochs of minibatches."""
    num_envs: int = 16
    """Environments that run side by side."""
    alpha: int = 128
    """Steps of each environment between two synchronisations."""
    lag: Literal[0, 1] = 1
    """Policies between acting and learning: 1 overlaps them, 0 is on-policy without overlap."""
    correction: str = "auto"
    """a2c: delayed (the paper), none, truncated-is, vtrace; ppo: ppo-ratio (what the release
    ran), delayed, vtrace, none; auto is the first of these."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the network's forward and backward passes."""
    learners: int = 1
    """Shards of the environments whose gradients are computed apart and added in order."""
    learner_threads: int = 1
    """Threads of the learner's tensor operations."""
    network: str = "mlp"
    """mlp, nature-cnn, football-cnn, impala-resnet, or package.module:Class."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of mlp."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Adam, or RMSProp without momentum."""
    learning_rate: float = 3e-4
    """Step size of the optimiser at the start."""
    anneal: bool = True
    """Let the learning rate fall linearly to 0 over the intervals."""
    discount: float = 0.99
    """γ."""
    gae_lambda: float = 0.95
    """λ of generalized advantage estimation."""
    unroll: int = 0
    """a2c: steps of an n-step return; 0: generalized advantage estimation."""
    epochs: int = 10
    """ppo: passes over an interval's data."""
    minibatches: int = 32
    """ppo: steps per pass."""
    clip: float = 0.2
    """ppo: how far the ratio may move."""
    clip_values: bool = False
    """ppo: clip the value loss alike."""
    normalize_advantages: bool = True
    """ppo: give each minibatch's advantages mean 0 and std 1."""
    target_kl: float = 0.0
    """ppo: end an update when a minibatch's KL exceeds 1.5 times this; 0: never."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    max_gradient_norm: float = 0.5
    """Every gradient is scaled down to this norm."""
    normalize_observations: bool = False
    """Normalise observations by the running moments that travel with each version."""
    scale_rewards: bool = False
    """Divide rewards by the running std of discounted returns."""
    clip_rewards: bool = False
    """Learn from the sign of rewards, as is usual for Atari."""
    inference_rows: int = -1
    """Rows of every forward pass when acting: 0 for any number, -1 for what a self-check finds."""
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
    promise: bool = True
    """Repeat the first interval of the first environment and stop if its bits differ."""

    def __post_init__(self) -> None:
        positive = ["total_steps", "num_envs", "alpha", "learners", "learner_threads"]
        positive += ["learning_rate", "epochs", "minibatches", "clip", "max_gradient_norm"]
        refuse_nonpositive(self, *positive, "evaluate_episodes")
        for name in ("discount", "gae_lambda"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"--{name.replace('_', '-')} must be in [0, 1], got {value}")
        legal = CORRECTIONS[self.learner]
        if self.correction not in ("auto", *legal):
            raise ValueError(
                f"--correction {self.correction!r} does not go with --learner {self.learner}: "
                f"legal are {', '.join(legal)}"
            )
        self._refuse_uneven()

    def _refuse_uneven(self) -> None:
        if self.num_envs % self.learners:
            raise ValueError(
                f"--learners {self.learners} must divide the {self.num_envs} environments"
            )
        rows = self.num_envs // self.learners * self.alpha
        if self.learner == "ppo" and rows % self.minibatches:
            raise ValueError(
                f"--minibatches {self.minibatches} must divide the {rows} rows of "
                f"{'each shard' if self.learners > 1 else 'an interval'} "
                "(num_envs / learners × alpha)"
            )
        if self.total_steps < self.num_envs * self.alpha:
            raise ValueError(
                f"--total-steps {self.total_steps} is less than one interval of "
                f"{self.num_envs} environments × {self.alpha} steps"
            )

    @property
    def correction_used(self) -> str:
        """Return the correction, resolved."""
        return CORRECTIONS[self.learner][0] if self.correction == "auto" else self.correction

    @property
    def intervals(self) -> int:
        """Return how many intervals reach `total_steps`."""
        return -(-self.total_steps // (self.num_envs * self.alpha))


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (hts, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


_CONTROL = {
    "normalize_observations": True,
    "scale_rewards": True,
    "renew_intervals": 32,
    "evaluate_every": 250,
    "evaluate_episodes": 10,
}
_ATARI = {
    "network": "nature-cnn",
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
    "network": "football-cnn",
    "total_steps": 5_000_000,
    "learning_rate": 3.43e-4,
    "discount": 0.993,
    "epochs": 2,
    "minibatches": 8,
    "clip": 0.08,
    "entropy_coefficient": 0.003,
    "max_gradient_norm": 0.64,
    "clip_rewards": False,
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
    **{
        f"{name}-v{version}": _CONTROL
        for name in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Swimmer", "Humanoid")
        for version in (4, 5)
    },
    **{
        f"{name}-v5": _ATARI
        for name in ("Pong", "Breakout", "Qbert", "Krull", "Jamesbond", "SpaceInvaders")
    },
    **{
        f"gfootball/{name}-v1": _FOOTBALL
        for name in (
            "academy_empty_goal_close",
            "academy_empty_goal",
            "academy_run_to_score",
            "academy_run_to_score_with_keeper",
            "academy_pass_and_shoot_with_keeper",
            "academy_run_pass_and_shoot_with_keeper",
            "academy_3_vs_1_with_keeper",
            "academy_corner",
            "academy_counterattack_easy",
            "academy_counterattack_hard",
        )
    },
}


def packages(config: HTS) -> tuple[str, ...]:
    """Return the packages that compute in a run: the learner is always torch's."""
    engine = resolve_engine(config.env, config.engine, prefer="envpool")
    module = (top_package(config.network),) if ":" in config.network else ()
    return (*environment_packages(config.env, engine), "torch", *module)


def resolve(config: HTS) -> HTS:
    """Return the config with the rows that keep the bits of the forward pass, or refuse it."""
    import torch

    from drumline.policies.actor_critic import initial_parameters
    from drumline.policies.invariance import choose_rows

    torch.set_num_threads(1)  # as everybody who acts
    recipe = build(config, RotationLayout())
    network = recipe.network
    rng = seeding.generator(0, "self-check")
    shape = (max(config.num_envs, 4), *network.observation_shape)
    if network.observation_dtype == "|u1":
        observations = rng.integers(0, 256, shape, dtype=np.uint8)
    else:
        observations = rng.standard_normal(shape).astype(network.observation_dtype)
    size = network.observation_size
    arrays = {
        "parameters": initial_parameters(network, config.seed),
        "observation_mean": np.zeros(size),
        "observation_inverse_std": np.ones(size),
    }
    rows = choose_rows(InferenceSpec(network, config.precision), arrays, observations)
    if config.inference_rows not in (-1, rows):
        raise ValueError(
            f"the run's forward passes have --inference-rows {config.inference_rows}, but on this "
            f"machine the bits of a row are kept with {rows}: go on where the run was made"
        )
    return dataclasses.replace(config, inference_rows=rows)


def build(config: HTS, layout: RotationLayout) -> RotationRecipe:
    """Put the parts together; names become functions here and nowhere else."""
    engine = resolve_engine(config.env, config.engine, prefer="envpool")
    environment = EnvironmentSpec(config.env, engine)
    law = parse_step_time(config.step_time) if config.step_time else None
    lanes = LanesSpec(environment, config.seed, 0, config.num_envs, law)
    probe = dataclasses.replace(lanes, count=1)()
    try:
        observations, actions = probe.observation_space, probe.action_space
        renewed = probe.needs_renewal
    finally:
        probe.close()
    if config.renew_intervals and not renewed:
        config = dataclasses.replace(config, renew_intervals=0)
    head = head_for(actions)
    dtype = np.dtype(observations.dtype)
    network = NetworkSpec(
        tuple(observations.shape),
        dtype.str,
        head,
        network=config.network,
        hidden=config.hidden,
        normalize=config.normalize_observations,
    )
    if config.normalize_observations and not network.is_mlp:
        raise ValueError(f"--normalize-observations goes with --network mlp, not {config.network}")
    item = dtype.itemsize * math.prod(observations.shape)
    shape = RolloutShape(
        alpha=config.alpha,
        environments=config.num_envs,
        observation_shape=tuple(observations.shape),
        observation_dtype=dtype.str,
        action_shape=head.action_shape,
        action_dtype=head.action_dtype,
        noise_size=head.noise_size,
        truncations=config.truncations_per_interval
        or max(4, min(config.alpha, (16 << 20) // (2 * config.num_envs * item))),
    )
    return RotationRecipe(
        method=METHOD,
        config=config,
        lanes=lanes,
        renewed=renewed,
        shape=shape,
        network=network,
        policy_head=_policy_head(head, actions),
        plan=RotationPlan(config.alpha, config.intervals, config.lag, layout.barrier),
    )


def policy_spec(recipe: RotationRecipe, parameter_count: int) -> ActorCriticSpec:
    """Return what a policy file says about the policy."""
    return ActorCriticSpec(recipe.network, recipe.policy_head, parameter_count)


def _policy_head(head: ActionHead, space: Any) -> Head | None:
    if head.kind == "categorical":
        return Head("discrete", choices=head.sizes[0], start=int(space.start))
    if head.kind == "gaussian":
        low, high = space.low.ravel().tolist(), space.high.ravel().tolist()
        return Head(
            "continuous",
            low=tuple(low),
            high=tuple(high),
            shape=tuple(space.shape),
            dtype=space.dtype.str,
        )
    return None
