"""AES-RL as a recipe: its config, its presets, and the parts that it puts together."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.async_es import AsyncES
from drumline.buffers.replay import ReplayShape
from drumline.envs.make import (
    EnvironmentSpec,
    check_spaces,
    make_environment,
    resolve_engine,
)
from drumline.envs.packages import environment_packages
from drumline.functional.population_control import controlled_probability, fixed_probability
from drumline.policies.mlp import uniform_vector
from drumline.policies.spec import PolicySpec
from drumline.recipes.aes_population import PopulationPlan
from drumline.recipes.layout import SteadyLayout
from drumline.recipes.searched_policy import refuse_nonpositive
from drumline.recipes.steady import SteadyRecipe
from drumline.recipes.strategies import StrategyNumbers, make_strategy
from drumline.recipes.td3 import learned_head, truncation_slots
from drumline.recipes.td3_jobs import TD3JobsSpec
from drumline.recipes.update_rules import RuleNumbers, make_update_rules
from drumline.recipes.virtual_costs import GradientRate, gradient_work
from drumline.schedules.event_order import VirtualCosts

METHOD = "aes"
ONE_PLUS_ONE = "one-plus-one"
ACEM_RL = "acem-rl"
ASYNC_ES = "async-es"


@dataclass(frozen=True)
class AES:
    """AES-RL (Lee et al. 2020). Every field is an argument of the result."""

    env: str
    """Gymnasium id, EnvPool id, or module:factory."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    frame_skip: int = 1
    """How often each action is repeated."""
    concurrency: int = 5
    """Logical workers: individuals that live at the same time."""
    schedule: Literal["async", "sync"] = "async"
    """async: an individual begins as soon as its logical worker is free; sync: once all of the last
    generation, one for each logical worker, have been told."""
    strategy: str = ASYNC_ES
    """async-es, snes, openai-es, cma, sep-cma, nevergrad:NAME, or module:factory."""
    mean_rule: str = "relative"
    """relative, absolute, linear, sigmoid, full-move or rank."""
    variance_rule: str = "welford-adaptive"
    """welford-adaptive, welford-fixed, one-fifth or rank."""
    fitness_range: float = 500.0
    """r of relative, linear and sigmoid, in units of the return."""
    fitness_baseline: float = 0.0
    """b of absolute, in units of the return."""
    negative_ratio: float = 0.0
    """linear: how far the mean moves away from a worse individual."""
    welford_samples: float = 10.0
    """n of welford-fixed."""
    strict_welford: bool = False
    """welford-adaptive: n = 1/p instead of the release's max(1/p - 1, 1)."""
    initial_variance: float = 1e-3
    """Variance of the first candidates (the release calls it sigma_init)."""
    kl_bound: float = 0.0
    """Largest KL divergence in nats between successive distributions; 0: no bound."""
    p_desired: float = 0.5
    """Share of individuals that are refined by gradient steps."""
    rl_probability: Literal["controlled", "fixed"] = "controlled"
    """controlled: the release's, with slope K; fixed: p_desired for every individual."""
    control_slope: float = 50.0
    """K of the controlled probability."""
    actor_steps: Literal["recent", "fixed"] = "recent"
    """recent: as many as the last --recent-episodes were long, times --actor-steps-scale."""
    recent_episodes: int = 10
    """Episodes that the gradient steps of an individual are counted from."""
    actor_steps_scale: float = 1.0
    """Gradient steps of an RL individual per env step of the recent episodes."""
    fixed_actor_steps: int = 1000
    """Gradient steps of an RL individual with --actor-steps fixed."""
    mean_evaluations: int = 5
    """Episodes of the mean beside each individual; 0: a moving average of returns instead."""
    warmup_steps: int = 10_000
    """Env steps with random actions before anything is told or learned."""
    critic_batches: int = 1000
    """Gradient steps of one critic job."""
    replay_size: int = 200_000
    """Transitions that are kept."""
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the hidden layers of actor (tanh) and critics (leaky ReLU)."""
    learning_rate: float = 1e-3
    """Step size of Adam, for actors and critics."""
    batch_size: int = 256
    """Transitions per gradient step."""
    discount: float = 0.99
    """γ."""
    polyak: float = 0.005
    """Share of the critics that enters their targets at each step."""
    target_noise: float = 0.2
    """Std of the noise on target actions."""
    target_noise_clip: float = 0.5
    """Largest noise on target actions."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the forward and backward passes of gradient steps."""
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
    """Virtual nanoseconds of an actor's gradient step; 0: by networks and batch, from the two
    above."""
    critic_step_cost: int = 0
    """Virtual nanoseconds of a critics' gradient step; 0: likewise."""
    least_env_steps: int = 1
    """No episode is shorter (1000 for HalfCheetah): results can be handled the sooner."""
    evaluate_every: int = 20
    """Updates (individuals) between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Live the first individual's episode again and stop if its bits differ."""

    def __post_init__(self) -> None:
        positive = ["total_steps", "frame_skip", "concurrency", "recent_episodes", "batch_size"]
        positive += ["fixed_actor_steps", "critic_batches", "replay_size", "learning_rate"]
        positive += ["fitness_range", "initial_variance", "control_slope", "actor_steps_scale"]
        positive += ["env_step_cost", "multiply_add_cost", "least_env_steps"]
        refuse_nonpositive(self, *positive, "evaluate_episodes")
        for name in ("discount", "polyak", "p_desired"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"--{name.replace('_', '-')} must be in [0, 1], got {value}")
        least = ["kl_bound", "mean_evaluations", "warmup_steps", "target_noise"]
        least += ["target_noise_clip", "evaluate_every", "gradient_overhead_cost"]
        for name in (*least, "actor_step_cost", "critic_step_cost"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"--{name.replace('_', '-')} must be 0 or more, got {getattr(self, name)}"
                )
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"--hidden needs layers of 1 or more, got {self.hidden}")
        if self.replay_size < self.batch_size:
            raise ValueError(
                f"--replay-size {self.replay_size} is smaller than --batch-size {self.batch_size}"
            )
        if self.replay_events and self.clock != "wall":
            raise ValueError("--replay-events goes with --clock wall: a virtual clock needs no log")
        make_update_rules(self.mean_rule, self.variance_rule, self.rule_numbers)

    @property
    def no_promise(self) -> str:
        """Return why this run cannot be repeated; empty: it can."""
        if self.clock == "virtual" or self.replay_events:
            return ""
        return "--clock wall handles results as they arrive; verify repeats it from events.jsonl"

    @property
    def rule_numbers(self) -> RuleNumbers:
        """Return the numbers that the update rules take."""
        return RuleNumbers(
            fitness_range=self.fitness_range,
            fitness_baseline=self.fitness_baseline,
            negative_ratio=self.negative_ratio,
            welford_samples=self.welford_samples,
            strict_welford=self.strict_welford,
        )


@dataclass(frozen=True)
class OnePlusOne(AES):
    """(1+1)-ES in the same loop: the mean moves all the way to what is better."""

    mean_rule: str = "full-move"
    variance_rule: str = "one-fifth"


@dataclass(frozen=True)
class ACEMRL(AES):
    """ACEM-RL of the same release: ranks over an archive of the last individuals."""

    mean_rule: str = "rank"
    variance_rule: str = "rank"


_SMALL = {
    "warmup_steps": 1_000,
    "total_steps": 50_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "evaluate_every": 10,
}

PRESETS: dict[str, dict[str, Any]] = {
    "InvertedPendulum-v5": {**_SMALL, "fitness_range": 160.0, "env_step_cost": 90_000},
    "Pendulum-v1": {
        **_SMALL,
        "fitness_range": 250.0,
        "env_step_cost": 45_000,
        "least_env_steps": 200,
    },
    "CartPole-v1": {**_SMALL, "fitness_range": 80.0, "env_step_cost": 40_000},
    "LunarLander-v3": {
        **_SMALL,
        "total_steps": 200_000,
        "fitness_range": 50.0,
        "env_step_cost": 80_000,
    },
    # r and b of the release's config files; its command-line script has r = 2000 for Hopper and
    # 960 for Walker2d and Swimmer, and which of them is the paper's is not known.
    "HalfCheetah-v5": {
        "fitness_range": 2000.0,
        "fitness_baseline": -2000.0,
        "least_env_steps": 1000,
    },
    "Hopper-v5": {"fitness_range": 600.0, "fitness_baseline": -600.0},
    "Walker2d-v5": {"fitness_range": 800.0, "fitness_baseline": -800.0},
    "Swimmer-v5": {
        "fitness_range": 48.0,
        "fitness_baseline": -48.0,
        "p_desired": 0.1,
        "least_env_steps": 1000,
    },
    "Ant-v5": {"fitness_range": 960.0, "fitness_baseline": -960.0, "env_step_cost": 400_000},
    "Humanoid-v5": {
        "fitness_range": 960.0,
        "fitness_baseline": -960.0,
        "hidden": (256, 256),
        "learning_rate": 3e-4,
        "env_step_cost": 550_000,
    },
}


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (aes, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


def packages(config: AES) -> tuple[str, ...]:
    """Return the packages that compute in a run."""
    engine = resolve_engine(config.env, config.engine)
    library = config.strategy.split(":")[0].removeprefix("sep-")
    searching = (library,) if library in ("cma", "nevergrad") else ()
    return (*environment_packages(config.env, engine), "torch", *searching)


def build(config: AES, layout: SteadyLayout) -> SteadyRecipe:
    """Put the parts together; names become functions here and nowhere else."""
    engine = resolve_engine(config.env, config.engine)
    environment = EnvironmentSpec(config.env, engine, config.frame_skip)
    made = make_environment(environment)
    try:
        check_spaces(made.environment, config.env)
        size = int(np.prod(made.environment.observation_space.shape))
        head = learned_head(made.environment.action_space, config.env)
    finally:
        made.environment.close()
    longest = made.limit or 10_000
    capacity = config.replay_size
    slack = 2 * (config.concurrency + 1) * longest
    shape = ReplayShape(
        capacity=capacity,
        observation_size=size,
        action_size=head.action_size,
        slack=slack,
        truncations=truncation_slots(capacity + slack, made.limit),
    )
    policy = PolicySpec(size, head, config.hidden, normalize=False)
    critic_inputs = size if head.kind == "discrete" else size + head.action_size
    critic_outputs = head.output_size if head.kind == "discrete" else 1
    jobs = TD3JobsSpec(
        {
            "observation_size": size,
            "head": head,
            "actor_hidden": config.hidden,
            "critic_hidden": config.hidden,
            "actor_activation": "tanh",
            "critic_activation": "leaky-relu",
            "batch_size": config.batch_size,
            "discount": config.discount,
            "polyak": config.polyak,
            "actor_learning_rate": config.learning_rate,
            "critic_learning_rate": config.learning_rate,
            "target_noise": config.target_noise,
            "target_noise_clip": config.target_noise_clip,
            "scale_target_noise": False,  # as in the release: in units of actions
            "precision": config.precision,
        },
        shape,
    )
    actor_sizes = (size, *config.hidden, head.output_size)
    critic_sizes = (critic_inputs, *config.hidden, critic_outputs)
    start = uniform_vector(actor_sizes, seeding.generator(config.seed, "initial-actor"))
    probability = (
        partial(controlled_probability, desired_share=config.p_desired, slope=config.control_slope)
        if config.rl_probability == "controlled"
        else partial(fixed_probability, desired_share=config.p_desired)
    )
    plan = PopulationPlan(
        seed=config.seed,
        warmup_steps=config.warmup_steps,
        mean_evaluations=config.mean_evaluations,
        batch_size=config.batch_size,
        critic_batches=config.critic_batches,
        recent_episodes=config.recent_episodes,
        actor_steps=partial(_actor_steps, config),
        learns_critics=config.p_desired > 0.0,
        least_env_steps=config.least_env_steps,
        generation=config.concurrency if config.schedule == "sync" else 0,
    )
    names = {OnePlusOne: ONE_PLUS_ONE, ACEMRL: ACEM_RL}
    return SteadyRecipe(
        method=names.get(type(config), METHOD),
        config=config,
        environment=environment,
        policy=policy,
        shape=shape,
        jobs=jobs,
        plan=plan,
        critic_sizes=critic_sizes,
        strategy=_strategy(config, start),
        choice=ActorChoice(probability, seed=config.seed),
        costs=_costs(config, actor_sizes, critic_sizes),
    )


def _actor_steps(config: AES, recent_env_steps: int) -> int:
    if config.actor_steps == "fixed":
        return config.fixed_actor_steps
    return round(config.actor_steps_scale * recent_env_steps)


def _costs(
    config: AES, actor_sizes: tuple[int, ...], critic_sizes: tuple[int, ...]
) -> VirtualCosts:
    rate = GradientRate(config.gradient_overhead_cost, config.multiply_add_cost)
    work = gradient_work(actor_sizes, critic_sizes, 2, config.batch_size)
    return VirtualCosts(
        config.env_step_cost,
        config.actor_step_cost or rate.step(work.actor),
        config.critic_step_cost or rate.step(work.critic),
    )


def _strategy(config: AES, start: np.ndarray) -> Any:
    if config.strategy != ASYNC_ES:
        numbers = StrategyNumbers(
            std=math.sqrt(config.initial_variance), budget=max(1, config.total_steps // 100)
        )
        return make_strategy(config.strategy, start, numbers, seed=config.seed)
    rules = make_update_rules(config.mean_rule, config.variance_rule, config.rule_numbers)
    return AsyncES(
        start,
        rules.mean,
        rules.variance,
        seed=config.seed,
        initial_variance=config.initial_variance,
        archive_size=rules.archive_size,
        kl_bound=config.kl_bound or None,
    )
