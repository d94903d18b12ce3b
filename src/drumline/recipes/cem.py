"""CEM as a recipe: CEM-RL's search without its gradient steps."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from drumline.algorithms.candidate_generations import CandidateGenerations
from drumline.algorithms.cem import CEM as Strategy
from drumline.envs.make import resolve_engine
from drumline.envs.packages import environment_packages
from drumline.recipes.layout import Layout
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.population import PopulationRecipe
from drumline.recipes.population_config import TrainingConfig
from drumline.recipes.refused_values import refuse_nonpositive, refuse_outside_unit
from drumline.schedules.generational import GenerationPlan
from drumline.workers.evaluator import EvaluatorSpec

METHOD = "cem"


@dataclass(frozen=True)
class SearchConfig:
    """The distribution of the cross-entropy method."""

    population_size: int = 10
    """Individuals, and episodes, per generation."""
    elites: int = 5
    """K: how many of them make the next distribution."""
    initial_variance: float = 1e-3
    """Of each parameter."""
    damp: float = 1e-3
    """ε, what is added to the variance at first."""
    damp_limit: float = 1e-5
    """What ε decays to."""
    damp_decay: float = 0.95
    """Share of ε that is kept per generation; the AES-RL release has 0.9."""
    antithetic: bool = True
    """Whether members i and i + N/2 have opposite noise."""
    divide_by_elites: bool = True
    """Whether the variance is divided by K once more, as in CEM-RL's code."""

    def __post_init__(self) -> None:
        if self.population_size < 2:
            raise ValueError(f"--population-size must be 2 or more, got {self.population_size}")
        if self.antithetic and self.population_size % 2:
            raise ValueError(
                f"--population-size must be even with --antithetic, got {self.population_size}"
            )
        if not 1 <= self.elites <= self.population_size:
            raise ValueError(
                f"--elites must be 1 to --population-size {self.population_size}, got {self.elites}"
            )
        refuse_nonpositive(self, "initial_variance", "damp", "damp_limit")
        if self.damp_limit > self.damp:
            raise ValueError(
                f"--damp-limit must be at most --damp {self.damp}, got {self.damp_limit}"
            )
        refuse_outside_unit(self, "damp_decay")


@dataclass(frozen=True)
class CEM(SearchConfig, TrainingConfig):
    """The cross-entropy method of CEM-RL (Pourchot & Sigaud 2019), without gradient steps."""

    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the actor's hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Of the actor's hidden layers."""
    evaluate_every: int = 50
    """Updates between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""

    def __post_init__(self) -> None:
        TrainingConfig.__post_init__(self)
        SearchConfig.__post_init__(self)


MUJOCO = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Swimmer-v5", "Ant-v5", "Humanoid-v5")
_SMALL = {"hidden": (64, 64), "initial_variance": 1e-2, "damp": 1e-2}

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {**_SMALL, "total_steps": 100_000},
    "Pendulum-v1": {**_SMALL, "total_steps": 200_000},
    "InvertedPendulum-v5": {**_SMALL, "total_steps": 200_000},
    **{env: {} for env in MUJOCO},
    "Humanoid-v5": {"hidden": (256, 256)},
}


def preset(env_id: str) -> dict[str, Any]:
    """Return the fields in which the preset of (cem, env_id) differs from the defaults."""
    return dict(PRESETS.get(env_id, {}))


def packages(config: CEM) -> tuple[str, ...]:
    """Return the packages that compute in a run."""
    return environment_packages(config.env, resolve_engine(config.env, config.engine))


def build(config: CEM, layout: Layout) -> PopulationRecipe:
    """Put the parts together."""
    actor = learned_actor(config, config.activation)
    return PopulationRecipe(
        method=METHOD,
        env_id=config.env,
        seed=config.seed,
        total_steps=config.total_steps,
        strategy=CandidateGenerations(
            search(config, actor.first_parameters(config.seed)), config.population_size, config.seed
        ),
        plan=GenerationPlan(config.population_size, rehearse=config.promise),
        worker=EvaluatorSpec(actor.environment, actor.policy, noise_seed=config.seed),
        policy=actor.policy,
        shared=None,
        evaluate_every=config.evaluate_every,
        evaluate_episodes=config.evaluate_episodes,
    )


def search(config: Any, mean: np.ndarray) -> Strategy:
    """Return CEM around a first actor."""
    return Strategy(
        mean,
        seed=config.seed,
        population_size=config.population_size,
        elites=config.elites,
        initial_variance=config.initial_variance,
        damp=config.damp,
        damp_limit=config.damp_limit,
        damp_decay=config.damp_decay,
        antithetic=config.antithetic,
        divide_by_elites=config.divide_by_elites,
    )
