"""AES-RL as a recipe: its config, its presets and its parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.async_es import AsyncES
from drumline.algorithms.candidate_generations import CandidateStrategy
from drumline.algorithms.external import External
from drumline.functional.population_control import controlled_probability, fixed_probability
from drumline.populations.aes import AESPopulation, PopulationPlan
from drumline.populations.objective import ObjectivePlan, ObjectivePopulation
from drumline.recipes.aes_presets import PAPER, PAPER_OF_OTHERS, PRESETS, RELEASED_RULES
from drumline.recipes.families import Fields
from drumline.recipes.method import GoesWith, Presets, torch_packages
from drumline.recipes.objectives import check_objective, objective_packages, searched_objective
from drumline.recipes.refining import refining_parts
from drumline.recipes.refused_values import (
    is_chosen,
    refuse_device_on_ray,
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unfinite,
    refuse_unusable_replay,
    refuse_unusable_training,
)
from drumline.recipes.shared_fields import ClockFields, ObjectiveFields, RefinementFields
from drumline.recipes.strategies import ASYNC_ES, StrategyNumbers, make_strategy
from drumline.recipes.update_rules import RANGED_RULES, READ_BY, RuleNumbers, make_update_rules
from drumline.recipes.virtual_clock import (
    no_promise_by_clock,
    refuse_unusable_clock,
    virtual_costs,
    with_whole_path,
)
from drumline.schedules.event_order import VirtualCosts
from drumline.training.layout import Layout, SteadyLayout
from drumline.training.steady_recipes import ObjectiveRecipe, SteadyRecipe

_ENVIRONMENT_FIELDS = (
    *("engine", "frame_skip", "hidden", "evaluate_max_steps", "warmup_steps", "replay_size"),
    *("batch_size", "learning_rate", "discount", "polyak", "precision", "target_noise"),
    *("target_noise_clip", "gradient_overhead_cost", "multiply_add_cost", "actor_step_cost"),
    *("critic_step_cost", "least_env_steps", "rl_probability", "control_slope"),
    *("refined_from", "actor_steps", "recent_episodes"),
    *("actor_steps_scale", "fixed_actor_steps", "critic_batches", "critic_lag"),
    *("max_episode_steps", "env_kwargs", "flatten_observations", "network", "device"),
    *("activation", "critic_activation", "scale_bytes"),
)

_REFINING_READ_BY = {
    "control_slope": ("rl_probability", ("controlled",)),
    "actor_steps_scale": ("actor_steps", ("recent",)),
    "recent_episodes": ("actor_steps", ("recent",)),
    "fixed_actor_steps": ("actor_steps", ("fixed",)),
}
"""The same as `READ_BY`, of numbers that every strategy's individuals are refined by."""
_ALL_READ_BY = {**READ_BY, **_REFINING_READ_BY}
_DECIDING = ("strategy", "mean_rule", "variance_rule", "rl_probability", "actor_steps")
"""Fields that decide which numbers are read."""


@dataclass(frozen=True)
class AES(ClockFields, ObjectiveFields, RefinementFields):
    """AES-RL (Lee et al. 2020). Every field is an argument of the result."""

    env: str = ""
    """Gymnasium id, EnvPool id, or module:factory; empty with --objective."""
    evaluate_every: int = 20
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    mean_evaluations: int = 5
    """Episodes of the mean beside each individual; 0: a moving average of returns instead."""
    warmup_steps: int = 10_000
    """Env steps with random actions before anything is told or learned."""
    replay_size: int = 200_000
    """Transitions that are kept."""
    batch_size: int = 256
    """Transitions per gradient step."""
    schedule: Literal["async", "sync"] = "async"
    """async: an individual begins as soon as its logical worker is free; sync: once all of the last
    generation, one for each logical worker, have been told."""
    strategy: str = ASYNC_ES
    """async-es, snes, openai-es, cma, sep-cma, nevergrad:NAME, or module:factory."""
    policy: str = "mlp"
    """mlp; linear: an actor without hidden layers, the critics keep theirs; with --objective
    package.module:Class of a torch.nn.Module without arguments."""
    strategy_budget: int = 0
    """nevergrad: individuals that its optimisers plan for; 0: one for 100 env steps, or for each
    call of an --objective (recorded)."""
    mean_rule: str = "relative"
    """relative, absolute, linear, sigmoid, full-move, confirmed-move or rank."""
    variance_rule: str = "welford-adaptive"
    """welford-adaptive, welford-fixed, one-fifth or rank."""
    fitness_range: float = 500.0
    """r of relative, linear and sigmoid, in units of the return."""
    range_spread: float = 0.0
    """relative, linear and sigmoid: r is so many standard deviations of the returns of the last 20
    individuals; 0: r is --fitness-range."""
    fitness_baseline: float = 0.0
    """b of absolute, in units of the return."""
    negative_ratio: float = 0.0
    """linear: step of the mean away from a worse individual."""
    welford_samples: float = 10.0
    """n of welford-fixed."""
    strict_welford: bool = False
    """welford-adaptive: n = 1/p instead of the release's max(1/p - 1, 1)."""
    variance_from: Literal["all", "es"] = "all"
    """Individuals that the variance follows; es: those without gradient steps."""
    staleness_discount: float = 1.0
    """Factor of the mean's step for each individual that was told between ask and tell."""
    recentred: bool = False
    """Count an individual from the newest mean, by as much as it is away from the mean that it was
    asked of. Without it the mean goes back towards the older one."""
    initial_variance: float = 1e-3
    """Variance of the first candidates (the release calls it sigma_init)."""
    kl_bound: float = 0.0
    """Largest KL divergence in nats between successive distributions; 0: no bound."""
    p_desired: float = 0.5
    """Share of individuals that are refined by gradient steps."""
    rl_probability: Literal["controlled", "fixed"] = "controlled"
    """Probability of refinement: controlled (the release's, with slope K), or p_desired."""
    control_slope: float = 50.0
    """K of the controlled probability."""
    refined_from: Literal["samples", "newest"] = "samples"
    """samples: gradient steps begin with a sample, and the critics' targets take the mean's
    actions; newest: they go on from the newest refined individual, whose actions the targets
    take."""
    actor_steps: Literal["recent", "fixed"] = "recent"
    """recent: env steps of the last --recent-episodes episodes, times --actor-steps-scale."""
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
    many behind the env's; 0: individuals do not wait for it, as in the release."""

    LAYOUT: ClassVar[type[Layout]] = SteadyLayout
    OBJECTIVE: ClassVar[Fields] = {
        "p_desired": 0.0,
        "mean_evaluations": 1,
        "initial_variance": 1e-2,
        "evaluate_every": 1000,
        "total_steps": 100_000,
    }
    PRESETS: ClassVar[Presets] = PRESETS
    VARIANTS: ClassVar[Mapping[str, Presets]] = {"paper": PAPER}
    GOES_WITH: ClassVar[GoesWith] = {"range_spread": ("mean_rule", RANGED_RULES)}

    def __post_init__(self) -> None:
        check_objective(self, _ENVIRONMENT_FIELDS)
        if self.env and self.policy not in ("mlp", "linear"):
            raise ValueError(f"--policy {self.policy!r} is neither mlp nor linear")
        if self.policy == "linear" and ":" in self.network:
            raise ValueError(f"--policy linear contradicts --network {self.network}: give one")
        if self.objective and self.p_desired:
            raise ValueError(
                f"--p-desired {self.p_desired} asks for gradient steps, which an objective has "
                "none of: give --p-desired 0"
            )
        refuse_unusable_training(self)
        refuse_unusable_replay(self)
        refuse_unusable_clock(self)
        refuse_negative(self, "target_noise", "target_noise_clip")
        refuse_nonpositive(self, "recent_episodes", "fixed_actor_steps", "critic_batches")
        refuse_nonpositive(self, "fitness_range", "initial_variance", "control_slope")
        refuse_nonpositive(self, "actor_steps_scale")
        refuse_unfinite(self, "fitness_baseline", "welford_samples")
        refuse_outside_unit(self, "p_desired", "negative_ratio", "staleness_discount")
        refuse_negative(self, "kl_bound", "critic_lag", "strategy_budget", "range_spread")
        if self.mean_rule == "confirmed-move" and not self.mean_evaluations:
            raise ValueError(
                "--mean-rule confirmed-move goes back by the mean's returns: give "
                "--mean-evaluations 1 or more"
            )
        shortens = self.staleness_discount < 1.0 or self.kl_bound > 0.0
        if self.mean_rule == "confirmed-move" and shortens:
            flag = "--kl-bound" if self.kl_bound > 0.0 else "--staleness-discount"
            raise ValueError(
                f"{flag} shortens moves of the mean, and --mean-rule confirmed-move takes whole "
                "ones back: give one of them"
            )
        make_update_rules(self.mean_rule, self.variance_rule, self.rule_numbers)
        self._refuse_rules_without_effect()

    @property
    def actor_hidden(self) -> tuple[int, ...]:
        """Return the sizes of the actor's hidden layers."""
        return () if self.policy == "linear" else self.hidden

    @property
    def no_promise(self) -> str:
        """Return why this run cannot be repeated; empty if it can."""
        return no_promise_by_clock(self)

    def resolved(self) -> Self:
        """Return the config with the log's absolute path, and the budget that a longer run
        keeps."""
        config = with_whole_path(self)
        if self.strategy_budget or not self.strategy.startswith("nevergrad:"):
            return config
        individual = self.seeds_per_call if self.objective else 100
        return replace(config, strategy_budget=max(1, self.total_steps // individual))

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        named = objective_packages(self) if self.objective else torch_packages(self)
        library = self.strategy.split(":")[0].removeprefix("sep-")
        return (*named, *((library,) if library in ("cma", "nevergrad") else ()))

    def build(self, layout: SteadyLayout) -> SteadyRecipe | ObjectiveRecipe:
        """Put the parts together; only here do names become functions."""
        refuse_device_on_ray(self, layout)
        if self.objective:
            return self._of_objective()
        parts = refining_parts(self, self.actor_hidden, self.concurrency)
        strategy = _strategy(self, parts.actor.first_parameters(self.seed))
        probability = (
            partial(controlled_probability, desired_share=self.p_desired, slope=self.control_slope)
            if self.rl_probability == "controlled"
            else partial(fixed_probability, desired_share=self.p_desired)
        )
        plan = PopulationPlan(
            seed=self.seed,
            warmup_steps=self.warmup_steps,
            mean_evaluations=self.mean_evaluations,
            batch_size=self.batch_size,
            critic_batches=self.critic_batches,
            critic_lag=self.critic_lag,
            recent_episodes=self.recent_episodes,
            actor_steps=partial(_actor_steps, self),
            learns_critics=self.p_desired > 0.0,
            least_env_steps=parts.actor.least(self.least_env_steps),
            generation=self.concurrency if self.schedule == "sync" else 0,
            chained=self.refined_from == "newest",
        )
        return SteadyRecipe(
            config=self,
            environment=parts.actor.environment,
            policy=parts.actor.policy,
            critics=parts.critics,
            shape=parts.shape,
            jobs=parts.jobs,
            population=partial(
                AESPopulation,
                plan,
                strategy,
                ActorChoice(probability, seed=self.seed),
                parts.first_critics(self.seed),
            ),
            concurrency=self.concurrency,
            longest_episode=parts.actor.longest,
            costs=virtual_costs(self, parts.actor.counted_sizes, parts.critic_sizes),
            order=self,
            replayed=strategy if isinstance(strategy, External) else None,
        )

    def _of_objective(self) -> ObjectiveRecipe:
        objective, start = searched_objective(self)
        strategy = _strategy(self, start)
        plan = ObjectivePlan(
            seed=self.seed,
            mean_evaluations=self.mean_evaluations,
            seeds_per_call=self.seeds_per_call,
            generation=self.concurrency if self.schedule == "sync" else 0,
        )
        return ObjectiveRecipe(
            config=self,
            searched=objective,
            population=lambda: ObjectivePopulation(plan, strategy),
            concurrency=self.concurrency,
            costs=VirtualCosts(self.env_step_cost, 1, 1),  # it takes no gradient steps
            order=self,
            replayed=strategy if isinstance(strategy, External) else None,
        )

    def _refuse_rules_without_effect(self) -> None:
        if self.recentred and self.refined_from == "newest":
            raise ValueError(
                "--recentred contradicts --refined-from newest, whose refined individuals do not "
                "begin at samples around the mean: give --refined-from samples"
            )
        if self.strategy == ASYNC_ES:
            if self.variance_from == "es" and self.variance_rule == "rank":
                raise ValueError(
                    "--variance-from es contradicts --variance-rule rank, whose variance is that "
                    "of the best individuals of both kinds"
                )
            if self.range_spread and is_chosen(type(self), vars(self), "fitness_range"):
                raise ValueError(
                    f"--fitness-range {self.fitness_range} goes with --range-spread 0: r is "
                    f"{self.range_spread} standard deviations of recent returns"
                )
        else:
            self._refuse_rules_of_async_es()
        for name in self.unread(vars(self)):
            rule, readers = _ALL_READ_BY[name]
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(self, name)} goes with "
                f"--{rule.replace('_', '-')} {', '.join(readers)}: {getattr(self, rule)!r} "
                "does not read it"
            )

    def _refuse_rules_of_async_es(self) -> None:
        for name in (
            *("mean_rule", "variance_rule", "kl_bound"),
            *("range_spread", "variance_from", "staleness_discount", "recentred"),
            *READ_BY,
        ):
            if self._is_own(vars(self), name):
                raise ValueError(
                    f"--{name.replace('_', '-')} {getattr(self, name)} goes with --strategy "
                    f"{ASYNC_ES}: {self.strategy!r} has rules of its own"
                )

    @classmethod
    def unread(cls, fields: Mapping[str, Any]) -> list[str]:
        """Return the names of numbers that no default or preset has and no chosen rule reads."""
        rules = {name: fields.get(name, getattr(cls, name)) for name in _DECIDING}
        return [
            name
            for name, (rule, readers) in _ALL_READ_BY.items()
            if cls._is_own(fields, name)
            and (rules[rule] not in readers or (name in READ_BY and rules["strategy"] != ASYNC_ES))
        ]

    @classmethod
    def _is_own(cls, fields: Mapping[str, Any], name: str) -> bool:
        return is_chosen(cls if name in _ALL_READ_BY else AES, fields, name)

    @property
    def rule_numbers(self) -> RuleNumbers:
        """Return the numbers that the update rules take."""
        return RuleNumbers(
            fitness_range=self.fitness_range,
            fitness_baseline=self.fitness_baseline,
            range_spread=self.range_spread,
            negative_ratio=self.negative_ratio,
            welford_samples=self.welford_samples,
            strict_welford=self.strict_welford,
        )


@dataclass(frozen=True)
class OnePlusOne(AES):
    """(1+1)-ES in the same loop: the mean moves all the way to what is better."""

    mean_rule: str = "full-move"
    variance_rule: str = "one-fifth"

    PRESETS: ClassVar[Presets] = RELEASED_RULES
    VARIANTS: ClassVar[Mapping[str, Presets]] = {"paper": PAPER_OF_OTHERS}


@dataclass(frozen=True)
class ACEMRL(AES):
    """ACEM-RL of the same release: ranks over an archive of the last individuals."""

    mean_rule: str = "rank"
    variance_rule: str = "rank"

    PRESETS: ClassVar[Presets] = RELEASED_RULES
    VARIANTS: ClassVar[Mapping[str, Presets]] = {"paper": PAPER_OF_OTHERS}


def _actor_steps(config: AES, recent_env_steps: int) -> int:
    if config.actor_steps == "fixed":
        return config.fixed_actor_steps
    return round(config.actor_steps_scale * recent_env_steps)


def _strategy(config: AES, start: np.ndarray) -> CandidateStrategy:
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
        variance_from_refined=config.variance_from == "all",
        staleness_discount=config.staleness_discount,
        recentred=config.recentred,
    )
