"""CEM as a recipe: CEM-RL's search without its gradient steps."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.candidate_generations import CandidateGenerations
from drumline.algorithms.cem import CEM as Strategy
from drumline.envs.make import EnvironmentSpec, check_spaces, make_environment, resolve_engine
from drumline.envs.packages import environment_packages
from drumline.policies.mlp import uniform_vector
from drumline.policies.spec import PolicySpec
from drumline.recipes.layout import Layout
from drumline.recipes.population import PopulationRecipe
from drumline.recipes.searched_policy import refuse_nonpositive
from drumline.recipes.td3 import learned_head
from drumline.schedules.generational import GenerationPlan
from drumline.workers.evaluator import EvaluatorSpec

METHOD = "cem"


@dataclass(frozen=True)
class CEM:
    """The cross-entropy method of CEM-RL (Pourchot & Sigaud 2019), without gradient steps."""

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
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the actor's hidden layers."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Of the actor's hidden layers."""
    evaluate_every: int = 50
    """Updates between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first task again and stop if its bits differ."""

    def __post_init__(self) -> None:
        refuse_nonpositive(self, "total_steps", "frame_skip", "evaluate_episodes")
        refuse_search(self)


def refuse_search(config: Any) -> None:
    """Raise for settings of the distribution that make no sense."""
    if config.population_size < 2:
        raise ValueError(f"--population-size must be 2 or more, got {config.population_size}")
    if config.antithetic and config.population_size % 2:
        raise ValueError(
            f"--population-size must be even with --antithetic, got {config.population_size}"
        )
    if not 1 <= config.elites <= config.population_size:
        raise ValueError(
            f"--elites must be 1 to --population-size {config.population_size}, got {config.elites}"
        )
    refuse_nonpositive(config, "initial_variance")
    if not 0.0 <= config.damp_limit <= config.damp:
        raise ValueError(f"--damp-limit must be 0 to --damp {config.damp}, got {config.damp_limit}")
    if not 0.0 <= config.damp_decay <= 1.0:
        raise ValueError(f"--damp-decay must be in [0, 1], got {config.damp_decay}")
    if not config.hidden or min(config.hidden) < 1:
        raise ValueError(f"--hidden needs layers of 1 or more, got {config.hidden}")


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
    environment, policy, _ = environment_and_actor(config)
    return PopulationRecipe(
        method=METHOD,
        env_id=config.env,
        seed=config.seed,
        total_steps=config.total_steps,
        strategy=search(config, policy),
        plan=GenerationPlan(config.population_size, rehearse=config.promise),
        worker=EvaluatorSpec(environment, policy, noise_seed=config.seed),
        policy=policy,
        shared=None,
        evaluate_every=config.evaluate_every,
        evaluate_episodes=config.evaluate_episodes,
    )


def environment_and_actor(config: Any) -> tuple[EnvironmentSpec, PolicySpec, int]:
    """Make the environment once: return it, an actor that gradients can follow, and its limit."""
    environment = EnvironmentSpec(
        config.env, resolve_engine(config.env, config.engine), config.frame_skip
    )
    made = make_environment(environment)
    try:
        check_spaces(made.environment, config.env)
        size = int(np.prod(made.environment.observation_space.shape))
        head = learned_head(made.environment.action_space, config.env)
    finally:
        made.environment.close()
    policy = PolicySpec(size, head, config.hidden, normalize=False, activation=config.activation)
    return environment, policy, made.limit


def search(config: Any, policy: PolicySpec) -> CandidateGenerations:
    """Return CEM around a first actor."""
    sizes = (policy.observation_size, *policy.hidden, policy.head.output_size)
    mean = uniform_vector(sizes, seeding.generator(config.seed, "initial-actor"))
    strategy = Strategy(
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
    return CandidateGenerations(strategy, config.population_size, config.seed)
