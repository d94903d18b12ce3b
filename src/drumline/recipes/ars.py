"""ARS as a recipe: V1, V2, V1-t, V2-t on the same schedule as OpenAI-ES."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.ars import ARS as Strategy
from drumline.algorithms.episode_cap import parse_episode_cap
from drumline.algorithms.mirrored import MirroredSampler
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.search_state import decaying_std
from drumline.envs.environment import EnvironmentSpec
from drumline.functional.moments import inverse_std_unless_constant
from drumline.functional.perturbation import Noise
from drumline.policies.build import initial_parameters
from drumline.policies.convolutional import NETWORKS
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.spec import PolicySpec
from drumline.recipes.families import Fields
from drumline.recipes.first_policies import first_policy
from drumline.recipes.method import Presets
from drumline.recipes.objectives import check_objective, objective_packages, searched_objective
from drumline.recipes.refused_values import refuse_negative, refuse_nonpositive, refuse_unfinite
from drumline.recipes.search_replicas import SearchReplicaSpec
from drumline.recipes.searched_policy import (
    environment_and_policy,
    make_shared,
    searching_packages,
    uses_table,
)
from drumline.recipes.shared_fields import SearchFields
from drumline.schedules.generational import GenerationPlan
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout, SearchLayout
from drumline.types import Moments
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.objective import Objective
from drumline.workers.objective_worker import ObjectiveSpec

_ENVIRONMENT_FIELDS = (
    *("engine", "normalize", "normalization", "reward_shift", "action_bins", "episode_cap"),
    *("frame_skip", "evaluate_max_steps", "max_episode_steps", "env_kwargs"),
    "flatten_observations",
)


@dataclass(frozen=True)
class ARS(SearchFields):
    """ARS (Mania et al. 2018). V1: --no-normalize; the "-t" variants: --top-directions."""

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
    """Survival bonus that is subtracted from every reward in training, of every frame with
    --frame-skip."""
    noise: Literal["auto", "table", "counter"] = "auto"
    """Shared table, or counter-based Philox; auto: a table for up to 2²⁴ parameters."""
    noise_table_size: int = 1 << 25
    """Floats in the shared noise table (128 MiB)."""
    normalization: Literal["auto", "virtual-batch", "none"] = "auto"
    """Normalization of a network with convolutions: virtual-batch by statistics of 128 frames of
    random play; auto: virtual-batch where there are convolutions."""
    action_bins: str = "continuous"
    """continuous, uniform:K, or custom:v0,v1,… from -1 to 1."""
    episode_cap: str = "none"
    """none, mean:F, or adaptive:L0,FRACTION,RATIO."""
    evaluate_every: int = 250
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first task again and stop if its bits differ."""
    policy: str = "linear"
    """linear, a3c-cnn or nature-cnn for images; with --objective package.module:Class of a
    torch.nn.Module without arguments."""

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

    OBJECTIVE: ClassVar[Fields] = {"std": 0.1, "total_steps": 100_000}

    def __post_init__(self) -> None:
        if str(self.noise).startswith("low-rank:"):  # before the list of its own is given
            raise ValueError(f"--noise {self.noise} goes with es: ars has directions of full rank")
        check_objective(self, _ENVIRONMENT_FIELDS)
        if self.env and self.policy not in ("linear", *NETWORKS):
            words = " and, on images, ".join(("linear policies", " or ".join(NETWORKS)))
            raise ValueError(f"--policy {self.policy!r}: ars trains {words}")
        if self.population_size < 2 or self.population_size % 2:
            raise ValueError(
                f"--population-size must be even and at least 2 (mirrored pairs), "
                f"got {self.population_size}"
            )
        refuse_nonpositive(
            self,
            "noise_table_size",
            "std",
            "learning_rate",
            "total_steps",
            "frame_skip",
            "evaluate_episodes",
        )
        refuse_negative(self, "max_episode_steps", "evaluate_max_steps", "evaluate_every")
        refuse_unfinite(self, "reward_shift")
        if not 0 <= self.top_directions <= self.population_size // 2:
            raise ValueError(
                f"--top-directions must be 0 to {self.population_size // 2}, "
                f"got {self.top_directions}"
            )

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        return objective_packages(self) if self.objective else searching_packages(self, "linear")

    def build(self, layout: SearchLayout) -> GenerationalRecipe:
        """Put the parts together."""
        if self.objective:
            objective, start = searched_objective(self)
            return self._recipe(layout, None, objective, FirstPolicy(start))
        environment, policy = environment_and_policy(self, self.policy, (), bias=False, zero=True)
        rng = np.random.default_rng(0)
        if policy.convolutions:
            rng = seeding.generator(self.seed, "initial-parameters")
        first = first_policy(self, policy, initial_parameters(policy, rng))
        return self._recipe(layout, policy, environment, first)

    def _recipe(
        self,
        layout: SearchLayout,
        policy: PolicySpec | None,
        searched: EnvironmentSpec | Objective,
        first: FirstPolicy,
    ) -> GenerationalRecipe:
        threads, parameters = layout.update_thread_count, first.parameters
        noise, shared = make_shared(
            self, parameters.size, threads, policy, reference=first.reference
        )
        observed = 0 if policy is None or policy.convolutions else policy.observation_size
        strategy = self.strategy(parameters, noise, observed, threads, first.moments)
        noise_seed = None if uses_table(self, parameters.size) else self.seed
        if isinstance(searched, Objective):
            worker = ObjectiveSpec(searched, noise_seed)
        else:
            assert policy is not None, "an environment needs a policy"
            worker = EvaluatorSpec(searched, policy, noise_seed, reward_shift=self.reward_shift)
        return GenerationalRecipe(
            config=self,
            strategy=strategy,
            plan=GenerationPlan(
                self.population_size, rehearse=self.promise, objective=self.objective
            ),
            worker=worker,
            policy=policy,
            shared=shared,
            replica=SearchReplicaSpec(self, parameters.size, observed),
        )

    def strategy(
        self,
        parameters: np.ndarray,
        noise: Noise,
        observation_size: int,
        threads: int,
        first: Moments | None = None,
    ) -> Strategy:
        """Return the strategy with its first parameters; `observation_size` 0: without moments.

        `first`: moments of observations at the start, if a policy was trained before.
        """
        moments = None
        if observation_size and self.normalize:
            moments = ObservationMoments(
                observation_size, inverse_std_unless_constant, 0.0, first=first
            )
        return Strategy(
            parameters,
            MirroredSampler(self.seed, noise, obs_stat_probability=0.0 if moments is None else 1.0),
            decaying_std(self.std, 1.0, 0.0),
            learning_rate=self.learning_rate,
            top_directions=self.top_directions or None,
            moments=moments,
            episode_cap=parse_episode_cap(self.episode_cap),
            update_threads=threads,
        )
