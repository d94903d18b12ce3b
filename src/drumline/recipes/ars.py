"""ARS as a recipe: V1, V2, V1-t, V2-t on the same schedule as OpenAI-ES."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from drumline.algorithms.ars import ARS as Strategy
from drumline.algorithms.episode_cap import parse_episode_cap
from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.search_state import decaying_std
from drumline.functional.moments import inverse_std_unless_constant
from drumline.policies.build import initial_parameters
from drumline.recipes.method import Presets
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive
from drumline.recipes.searched_policy import environment_and_policy, make_noise, searching_packages
from drumline.schedules.generational import GenerationPlan
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout, SearchLayout
from drumline.workers.evaluator import EvaluatorSpec


@dataclass(frozen=True)
class ARS:
    """ARS (Mania et al. 2018). V1: --no-normalize; the "-t" variants: --top-directions."""

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
    population_size: int = 16
    """Episodes per generation: twice the directions N."""
    top_directions: int = 0
    """b, the directions used; 0: all of them (V1, V2)."""
    std: float = 0.03
    """ν, the std of the exploration noise."""
    learning_rate: float = 0.02
    """α, the step size."""
    normalize: bool = True
    """V2: normalise observations by moments of all training states."""
    reward_shift: float = 0.0
    """Survival bonus that is subtracted from every reward in training."""
    noise: Literal["table", "counter"] = "table"
    """Shared table, or counter-based Philox."""
    noise_table_size: int = 1 << 25
    """Floats in the shared noise table (128 MiB)."""
    action_bins: str = "continuous"
    """continuous, uniform:K, or custom:v0,v1,… from -1 to 1."""
    episode_cap: str = "none"
    """none, mean:F, or adaptive:L0,FRACTION,RATIO."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    evaluate_every: int = 250
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Run the first task again and stop if its bits differ."""

    LAYOUT: ClassVar[type[Layout]] = SearchLayout
    # Best per task in the paper (appendix A.2), as published implementations carry it on.
    PRESETS: ClassVar[Presets] = {
        "Swimmer-v5": {
            "population_size": 2,
            "normalize": False,
            "std": 0.01,
            "evaluate_every": 500,
            "total_steps": 2_000_000,
        },
        "Hopper-v5": {
            "population_size": 16,
            "top_directions": 4,
            "std": 0.025,
            "learning_rate": 0.01,
            "reward_shift": 1.0,
            "total_steps": 7_000_000,
        },
        "HalfCheetah-v5": {
            "population_size": 64,
            "top_directions": 4,
            "evaluate_every": 50,
            "total_steps": 2_880_000,
        },
        "Walker2d-v5": {
            "population_size": 80,
            "top_directions": 30,
            "std": 0.025,
            "learning_rate": 0.03,
            "reward_shift": 1.0,
            "evaluate_every": 50,
            "total_steps": 25_000_000,
        },
        "Ant-v5": {
            "population_size": 120,
            "top_directions": 20,
            "std": 0.025,
            "learning_rate": 0.015,
            "reward_shift": 1.0,
            "evaluate_every": 50,
            "total_steps": 25_000_000,
        },
        "Humanoid-v5": {
            "population_size": 460,
            "top_directions": 230,
            "std": 0.0075,
            "reward_shift": 5.0,
            "evaluate_every": 10,
            "total_steps": 50_000_000,
        },
    }

    def __post_init__(self) -> None:
        if self.population_size < 2 or self.population_size % 2:
            raise ValueError(
                f"--population-size must be even and at least 2 (mirrored pairs), "
                f"got {self.population_size}"
            )
        refuse_nonpositive(
            self, "std", "learning_rate", "total_steps", "frame_skip", "evaluate_episodes"
        )
        refuse_negative(self, "max_episode_steps", "evaluate_max_steps", "evaluate_every")
        if not 0 <= self.top_directions <= self.population_size // 2:
            raise ValueError(
                f"--top-directions must be 0 to {self.population_size // 2}, "
                f"got {self.top_directions}"
            )

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        return searching_packages(self, "linear")

    def build(self, layout: SearchLayout) -> GenerationalRecipe:
        """Put the parts together."""
        environment, policy = environment_and_policy(self, "linear", (), bias=False, zero=True)
        parameters = initial_parameters(policy, np.random.default_rng(0))
        noise, shared = make_noise(self, parameters.size, layout.update_thread_count)
        moments = ObservationMoments(policy.observation_size, inverse_std_unless_constant, 0.0)
        strategy = Strategy(
            parameters,
            MirroredSampler(self.seed, noise, obs_stat_probability=float(self.normalize)),
            decaying_std(self.std, 1.0, 0.0),
            learning_rate=self.learning_rate,
            top_directions=self.top_directions or None,
            moments=moments if self.normalize else None,
            episode_cap=parse_episode_cap(self.episode_cap),
            update_threads=layout.update_thread_count,
        )
        worker = EvaluatorSpec(
            environment=environment,
            policy=policy,
            noise_seed=None if shared is not None else self.seed,
            reward_shift=self.reward_shift,
        )
        return GenerationalRecipe(
            config=self,
            strategy=strategy,
            plan=GenerationPlan(self.population_size, rehearse=self.promise),
            worker=worker,
            policy=policy,
            shared=shared,
        )
