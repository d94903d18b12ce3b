"""CEM-RL and its parallel forms as recipes: their configs, presets and parts."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from drumline.envs.make import resolve_engine
from drumline.envs.packages import environment_packages
from drumline.recipes.cem import SearchConfig, search
from drumline.recipes.critic_turns import CriticTurns, TurnsBeside, TurnsOfMembers
from drumline.recipes.generation_population import GenerationalPlan, GenerationPopulation
from drumline.recipes.layout import Layout
from drumline.recipes.population_config import CLOCKS, ClockConfig, RefiningConfig
from drumline.recipes.published_learner import first_critics
from drumline.recipes.refining import refining_parts, scaled_steps
from drumline.recipes.refused_values import refuse_nonpositive
from drumline.recipes.steady import SteadyRecipe

METHOD = "cem-rl"
PARALLEL = "p-cem-rl"


@dataclass(frozen=True)
class CEMRL(SearchConfig, RefiningConfig):
    """CEM-RL (Pourchot & Sigaud 2019). Every field is an argument of the result."""

    evaluate_every: int = 5
    """Updates (generations) between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    mean_evaluations: int = 0
    """Episodes of the mean at the end of each generation, which nothing learns from; 0: none."""
    warmup_steps: int = 10_000
    """Env steps before the first gradient step."""
    replay_size: int = 1_000_000
    """Transitions that are kept."""
    batch_size: int = 100
    """Transitions per gradient step."""
    refined_members: int = 5
    """R: how many members of a generation are refined by gradient steps (n_grad)."""
    actor_steps_scale: float = 1.0
    """Gradient steps of a refined member per env step of the generation before."""
    critic_steps_scale: float = 1.0
    """Gradient steps of the critics, shared out among the refined, per env step of the same."""
    warmup: Literal["population", "random"] = "population"
    """population: generations that are told and not refined; random: episodes with random actions
    that nobody is told of."""

    def __post_init__(self) -> None:
        RefiningConfig.__post_init__(self)
        SearchConfig.__post_init__(self)
        refuse_nonpositive(self, "actor_steps_scale", "critic_steps_scale")
        if not 0 <= self.refined_members <= self.population_size:
            raise ValueError(
                f"--refined-members must be 0 to --population-size {self.population_size}, "
                f"got {self.refined_members}"
            )


@dataclass(frozen=True)
class PCEMRL(ClockConfig, CEMRL):
    """P-CEM-RL of the AES-RL release: CEM-RL on logical workers, with a barrier per generation."""

    mean_evaluations: int = 1
    """Episodes of the mean at the end of each generation, while everybody waits; 0: none."""
    batch_size: int = 256
    """Transitions per gradient step."""
    damp_decay: float = 0.9
    """Share of ε that is kept per generation; CEM-RL's code has 0.95."""
    warmup: Literal["population", "random"] = "random"
    """population: generations that are told and not refined; random: episodes with random actions
    that nobody is told of."""
    critic: Literal["serial", "parallel"] = "serial"
    """serial: critics learn between generations, while everybody waits; parallel: all the time."""
    critic_batches: int = 1000
    """parallel: gradient steps of one critic job."""
    throttle_critic: bool = False
    """parallel: take no more gradient steps than there were env steps, as aes does."""

    def __post_init__(self) -> None:
        CEMRL.__post_init__(self)
        ClockConfig.__post_init__(self)
        refuse_nonpositive(self, "critic_batches")
        if self.throttle_critic and self.critic == "serial":
            raise ValueError(
                "--throttle-critic goes with --critic parallel: a serial critic takes "
                "--critic-steps-scale steps per env step"
            )


_SMALL = {
    "total_steps": 50_000,
    "warmup_steps": 1_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "initial_variance": 1e-2,
    "damp": 1e-2,
}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": _SMALL,
    "Pendulum-v1": _SMALL,
    "InvertedPendulum-v5": _SMALL,
    **{f"{name}-v5": {} for name in ("HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Ant")},
    "Humanoid-v5": {"hidden": (256, 256), "learning_rate": 3e-4},
}


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (cem-rl, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


def parallel_preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (p-cem-rl, env_id) differs from the defaults."""
    return {**preset(env_id), **CLOCKS[env_id]} if env_id in PRESETS else {}


def packages(config: CEMRL) -> tuple[str, ...]:
    """Return the packages that compute in a run."""
    return (*environment_packages(config.env, resolve_engine(config.env, config.engine)), "torch")


def build(config: CEMRL, layout: Layout) -> SteadyRecipe:
    """Put the parts together; names become functions here and nowhere else."""
    size = config.population_size
    parts = refining_parts(config, size, most_transitions=config.total_steps)
    parallel = config if isinstance(config, PCEMRL) else None
    plan = GenerationalPlan(
        seed=config.seed,
        population_size=size,
        refined_members=config.refined_members,
        warmup_steps=config.warmup_steps,
        random_warmup=config.warmup == "random",
        mean_evaluations=config.mean_evaluations,
        batch_size=config.batch_size,
        actor_steps=partial(scaled_steps, config.actor_steps_scale),
        critic_steps=partial(scaled_steps, config.critic_steps_scale),
        throttle_critic=parallel is not None and parallel.throttle_critic,
        least_env_steps=1 if parallel is None else parts.actor.least(parallel.least_env_steps),
    )
    population = partial(
        GenerationPopulation,
        plan,
        search(config, parts.actor.first_parameters(config.seed)),
        _turns(parallel),
        first_critics(parts.critic_sizes, config.seed),
    )
    return SteadyRecipe(
        method=METHOD if parallel is None else PARALLEL,
        config=config,
        environment=parts.actor.environment,
        policy=parts.actor.policy,
        shape=parts.shape,
        jobs=parts.jobs,
        population=population,
        concurrency=size if parallel is None else parallel.concurrency,
        longest_episode=parts.actor.longest,
        costs=None
        if parallel is None
        else parallel.costs(parts.actor.sizes, parts.critic_sizes, config.batch_size),
    )


def _turns(parallel: PCEMRL | None) -> CriticTurns:
    if parallel is not None and parallel.critic == "parallel":
        return TurnsBeside(parallel.critic_batches)
    return TurnsOfMembers(all_first=parallel is not None)
