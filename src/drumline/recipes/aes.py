"""AES-RL as a recipe: its config, its presets, and the parts that it puts together."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.async_es import AsyncES
from drumline.envs.make import resolve_engine
from drumline.envs.packages import environment_packages
from drumline.functional.population_control import controlled_probability, fixed_probability
from drumline.recipes.aes_population import AESPopulation, PopulationPlan
from drumline.recipes.layout import SteadyLayout
from drumline.recipes.population_config import CLOCKS, ClockConfig, RefiningConfig
from drumline.recipes.published_learner import first_critics
from drumline.recipes.refining import refining_parts
from drumline.recipes.refused_values import (
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unfinite,
)
from drumline.recipes.steady import SteadyRecipe
from drumline.recipes.strategies import ASYNC_ES, StrategyNumbers, make_strategy
from drumline.recipes.update_rules import RuleNumbers, make_update_rules

METHOD = "aes"
ONE_PLUS_ONE = "one-plus-one"
ACEM_RL = "acem-rl"


@dataclass(frozen=True)
class AES(ClockConfig, RefiningConfig):
    """AES-RL (Lee et al. 2020). Every field is an argument of the result."""

    mean_evaluations: int = 5
    """Episodes of the mean beside each individual; 0: a moving average of returns instead."""
    warmup_steps: int = 10_000
    """Env steps with random actions before anything is told or learned."""
    schedule: Literal["async", "sync"] = "async"
    """async: an individual begins as soon as its logical worker is free; sync: once all of the last
    generation, one for each logical worker, have been told."""
    strategy: str = ASYNC_ES
    """async-es, snes, openai-es, cma, sep-cma, nevergrad:NAME, or module:factory."""
    policy: Literal["mlp", "linear"] = "mlp"
    """linear: an actor without hidden layers; the critics keep theirs."""
    strategy_budget: int = 0
    """nevergrad: individuals that its optimisers plan for; 0: one for 100 env steps (recorded)."""
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
    critic_batches: int = 1000
    """Gradient steps of one critic job."""
    critic_lag: int = 5000
    """No individual begins before the critic's first job has ended, nor while its steps are this
    many behind the env's; 0: nobody waits for it, as in the release."""

    def __post_init__(self) -> None:
        RefiningConfig.__post_init__(self)
        ClockConfig.__post_init__(self)
        refuse_nonpositive(self, "recent_episodes", "fixed_actor_steps", "critic_batches")
        refuse_nonpositive(self, "fitness_range", "initial_variance", "control_slope")
        refuse_nonpositive(self, "actor_steps_scale")
        refuse_unfinite(self, "fitness_baseline", "welford_samples")
        refuse_outside_unit(self, "p_desired", "negative_ratio")
        refuse_negative(self, "kl_bound", "critic_lag", "strategy_budget")
        make_update_rules(self.mean_rule, self.variance_rule, self.rule_numbers)
        self._refuse_rules_without_effect()

    @property
    def actor_hidden(self) -> tuple[int, ...]:
        """Return the sizes of the actor's hidden layers."""
        return () if self.policy == "linear" else self.hidden

    def resolved(self) -> Self:
        """Return the config with the log's whole path and the budget that a longer run keeps."""
        config = super().resolved()
        if self.strategy_budget or not self.strategy.startswith("nevergrad:"):
            return config
        return replace(config, strategy_budget=max(1, self.total_steps // 100))

    def _refuse_rules_without_effect(self) -> None:
        if self.strategy == ASYNC_ES:
            return
        for name in ("mean_rule", "variance_rule", "kl_bound"):
            if (value := getattr(self, name)) != getattr(AES, name):
                raise ValueError(
                    f"--{name.replace('_', '-')} {value} goes with --strategy {ASYNC_ES}: "
                    f"{self.strategy!r} has rules of its own"
                )

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

_RULES: dict[str, dict[str, Any]] = {
    # r is ours, and so is b: -r, but below what random policies get, or `absolute` stands still.
    "InvertedPendulum-v5": {**_SMALL, "fitness_range": 160.0, "fitness_baseline": -160.0},
    "Pendulum-v1": {**_SMALL, "fitness_range": 250.0, "fitness_baseline": -2000.0},
    "CartPole-v1": {**_SMALL, "fitness_range": 80.0, "fitness_baseline": -80.0},
    "LunarLander-v3": {
        **_SMALL,
        "total_steps": 200_000,
        "fitness_range": 50.0,
        "fitness_baseline": -500.0,
    },
    # r and b of the release's config files; its command-line script has r = 2000 for Hopper and
    # 960 for Walker2d and Swimmer, and which of them is the paper's is not known.
    "HalfCheetah-v5": {"fitness_range": 2000.0, "fitness_baseline": -2000.0},
    "Hopper-v5": {"fitness_range": 600.0, "fitness_baseline": -600.0},
    "Walker2d-v5": {"fitness_range": 800.0, "fitness_baseline": -800.0},
    "Swimmer-v5": {"fitness_range": 48.0, "fitness_baseline": -48.0, "p_desired": 0.1},
    "Ant-v5": {"fitness_range": 960.0, "fitness_baseline": -960.0},
    "Humanoid-v5": {
        "fitness_range": 960.0,
        "fitness_baseline": -960.0,
        "hidden": (256, 256),
        "learning_rate": 3e-4,
    },
}
PRESETS: dict[str, dict[str, Any]] = {env: {**_RULES[env], **CLOCKS[env]} for env in _RULES}


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
    parts = refining_parts(config, config.concurrency)
    start = parts.actor.first_parameters(config.seed)
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
        critic_lag=config.critic_lag,
        recent_episodes=config.recent_episodes,
        actor_steps=partial(_actor_steps, config),
        learns_critics=config.p_desired > 0.0,
        least_env_steps=parts.actor.least(config.least_env_steps),
        generation=config.concurrency if config.schedule == "sync" else 0,
    )
    names = {OnePlusOne: ONE_PLUS_ONE, ACEMRL: ACEM_RL}
    return SteadyRecipe(
        method=names.get(type(config), METHOD),
        config=config,
        environment=parts.actor.environment,
        policy=parts.actor.policy,
        shape=parts.shape,
        jobs=parts.jobs,
        population=partial(
            AESPopulation,
            plan,
            _strategy(config, start),
            ActorChoice(probability, seed=config.seed),
            first_critics(parts.critic_sizes, config.seed),
        ),
        concurrency=config.concurrency,
        longest_episode=parts.actor.longest,
        costs=config.costs(parts.actor.sizes, parts.critic_sizes, config.batch_size),
    )


def _actor_steps(config: AES, recent_env_steps: int) -> int:
    if config.actor_steps == "fixed":
        return config.fixed_actor_steps
    return round(config.actor_steps_scale * recent_env_steps)


def _strategy(config: AES, start: np.ndarray) -> Any:
    if config.strategy != ASYNC_ES:
        numbers = StrategyNumbers(
            std=math.sqrt(config.initial_variance), budget=max(1, config.strategy_budget)
        )
        return make_strategy(
            config.strategy, start, numbers, seed=config.seed, promise=config.promise
        )
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
