"""OpenAI-ES as a recipe: its config, its presets and its parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.episode_cap import parse_episode_cap
from drumline.algorithms.mirrored import IndependentSampler, MirroredSampler
from drumline.algorithms.observation_moments import ObservationMoments
from drumline.algorithms.openai_es import OpenAIES, Shaping
from drumline.algorithms.optimizers import SGD, Adam, Optimizer
from drumline.algorithms.search_state import decaying_std
from drumline.algorithms.subspace import SubspaceES
from drumline.envs.environment import EnvironmentSpec
from drumline.functional.annealing import decaying
from drumline.functional.perturbation import Noise, block_count
from drumline.functional.ranking import centered_ranks, unshaped, z_scores
from drumline.functional.subspace import SubspaceSpec
from drumline.policies.build import initial_parameters
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.initial_layers import Initialization, InitialLayers
from drumline.policies.spec import PolicySpec
from drumline.recipes.es_presets import PAPER, PRESETS
from drumline.recipes.families import Fields
from drumline.recipes.first_policies import first_policy
from drumline.recipes.low_rank_noise import check_noise, low_rank_of
from drumline.recipes.method import GoesWith, Presets
from drumline.recipes.objectives import check_objective, objective_packages, searched_objective
from drumline.recipes.refused_values import (
    refuse_layers_below_one,
    refuse_negative,
    refuse_no_decay,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unfinite,
)
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

_RANKED = ("centered-rank", "sign-rank")
_SHAPINGS: dict[str, Shaping] = {"z-score": z_scores, "none": unshaped}

_UNEVEN = 0.02
"""Largest share by which a fraction may miss that of equal blocks: 0.33 is a third."""

_ENVIRONMENT_FIELDS = (
    *("engine", "generation_env_steps", "hidden", "normalize", "obs_stat_probability"),
    *("normalization", "initialization", "output_scale"),
    *("action_noise_std", "action_bins", "episode_cap", "frame_skip", "evaluate_max_steps"),
    *("max_episode_steps", "env_kwargs", "flatten_observations", "reward_shift"),
)


@dataclass(frozen=True)
class ES(SearchFields):
    """OpenAI-ES (Salimans et al. 2017). Every field is an argument of the result."""

    population_size: int = 40
    """Episodes per generation (per block, with --generation-env-steps); even for mirrored pairs."""
    generation_env_steps: int = 0
    """Take further blocks until a generation has this many env steps; 0: one block."""
    std: float = 0.02
    """σ, the std of the search distribution."""
    std_decay: float = 1.0
    """Factor on σ per generation."""
    std_floor: float = 0.0
    """σ never falls below this."""
    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam with coupled L2, or SGD with momentum."""
    learning_rate: float = 0.01
    """Step size of the optimiser."""
    learning_rate_decay: float = 1.0
    """Factor on the step size per generation."""
    learning_rate_floor: float = 0.0
    """The step size never falls below this."""
    weight_decay: float = 0.005
    """Coefficient of the coupled L2 term."""
    momentum: float = 0.9
    """Momentum of SGD."""
    shaping: Literal["centered-rank", "sign-rank", "z-score", "none"] = "centered-rank"
    """Fitness shaping; sign-rank ranks the sum of the rewards' signs."""
    tie_tolerance: float = 0.0
    """centered-rank, sign-rank: returns that follow each other in rank are ties if they differ by
    at most this share of the largest return's size."""
    reward_shift: float = 0.0
    """Survival bonus that is subtracted from every reward in training, of every frame with
    --frame-skip."""
    noise: str = "auto"
    """auto, table (shared), counter (Philox: any number of parameters, slower), or low-rank:R (of
    each matrix two thin factors with R columns); auto: a table for up to 2²⁴ parameters."""
    noise_table_size: int = 1 << 25
    """Floats in the shared noise table (128 MiB)."""
    policy: str = "mlp"
    """mlp, linear, a3c-cnn or nature-cnn for images, or package.module:Class of a
    torch.nn.Module(inputs, outputs); with --objective of one that is made without arguments."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the tanh layers of mlp."""
    initialization: InitialLayers = "column-normalized"
    """Initial layers of mlp and linear: columns of norm 1, orthogonal, or uniform in ±1/√inputs."""
    output_scale: float = 0.01
    """Norm of the output layer's columns at the beginning; uniform has none."""
    normalize: bool = True
    """Normalise observations by running moments and clip them to ±5."""
    obs_stat_probability: float = 0.01
    """Probability that a training rollout's observations enter the running moments."""
    action_noise_std: float = 0.01
    """Std of the noise on continuous actions in training rollouts."""
    normalization: Literal["auto", "virtual-batch", "none"] = "auto"
    """Normalization of the hidden layers of mlp, a3c-cnn and nature-cnn: virtual-batch by
    statistics of 128 observations of random play; auto: virtual-batch with convolutions."""
    action_bins: str = "continuous"
    """continuous, uniform:K, or custom:v0,v1,… from -1 to 1."""
    episode_cap: str = "none"
    """none, mean:F (the paper's is mean:2), or adaptive:L0,FRACTION,RATIO."""
    subset: Literal["none", "perturb", "use"] = "none"
    """Perturb only a block of the parameters per pair, or perturb all and use a block."""
    subset_fraction: float = 0.25
    """Share of the parameters in that block: 1, 1/2, 1/3, 1/4, …"""
    subspace: int = 0
    """Search this many coordinates of a random subspace through the initial parameters; 0: all
    parameters."""
    mirrored: bool = True
    """Perturb members in pairs, θ + σ ε and θ − σ ε; else every member has an ε of its own, and
    their number may be odd."""
    common_seeds: bool = False
    """Run both halves of a pair on the same environment seed."""
    evaluate_every: int = 100
    """Updates between evaluations; 0: only at the end."""
    evaluate_episodes: int = 20
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first task again and stop if its bits differ."""
    members_per_call: int = 1
    """--objective with --noise low-rank:R: members of one call, whose layers share a product."""

    LAYOUT: ClassVar[type[Layout]] = SearchLayout
    PRESETS: ClassVar[Presets] = PRESETS

    OBJECTIVE: ClassVar[Fields] = {
        "std": 0.1,
        "learning_rate": 0.03,
        "weight_decay": 0.0,
        "common_seeds": True,
        "total_steps": 100_000,
    }

    VARIANTS: ClassVar[Mapping[str, Presets]] = {"paper": PAPER}
    GOES_WITH: ClassVar[GoesWith] = {
        "tie_tolerance": ("shaping", _RANKED),
        "reward_shift": ("shaping", ("centered-rank", *_SHAPINGS)),
    }

    def __post_init__(self) -> None:
        check_objective(self, _ENVIRONMENT_FIELDS)
        if self.objective and self.shaping == "sign-rank":
            raise ValueError("--shaping sign-rank ranks rewards, and --objective has none")
        if self.population_size < 2:
            raise ValueError(f"--population-size must be at least 2, got {self.population_size}")
        if self.mirrored and self.population_size % 2:
            raise ValueError(
                f"--population-size must be even for mirrored pairs, got {self.population_size}: "
                "--no-mirrored takes any number"
            )
        refuse_nonpositive(
            self,
            *("std", "learning_rate", "total_steps", "frame_skip", "evaluate_episodes"),
            "output_scale",
        )
        refuse_negative(
            self,
            *("max_episode_steps", "evaluate_max_steps", "evaluate_every", "learning_rate_floor"),
            *("subspace", "generation_env_steps", "std_floor", "weight_decay", "action_noise_std"),
        )
        refuse_no_decay(self, "std_decay", "learning_rate_decay")
        self._refuse_high_floors()
        refuse_layers_below_one(self, "hidden")
        refuse_outside_unit(self, "obs_stat_probability", "subset_fraction", "tie_tolerance")
        refuse_outside_unit(self, "momentum")
        if self.momentum == 1.0:
            raise ValueError(f"--momentum must be below 1, got {self.momentum}: nothing would move")
        _refuse_uneven_blocks(self.subset_fraction)
        refuse_nonpositive(self, "noise_table_size")
        refuse_unfinite(self, "reward_shift")
        if self.common_seeds and not self.mirrored:
            begins = ", which --objective begins with," if self.objective else ""
            raise ValueError(
                f"--common-seeds{begins} is of mirrored pairs: leave out --no-mirrored, or add "
                "--no-common-seeds"
            )
        if self.subspace and self.subset != "none":
            raise ValueError(
                f"--subspace {self.subspace} perturbs all parameters: leave out --subset"
            )
        self._refuse_initialization()
        check_noise(self)
        if self.reward_shift and self.shaping == "sign-rank":
            raise ValueError(
                f"--reward-shift {self.reward_shift} is of returns, and --shaping sign-rank ranks "
                "the sum of the rewards' signs: add --reward-shift 0"
            )
        if self.tie_tolerance and self.shaping not in _RANKED:
            raise ValueError(
                f"--tie-tolerance {self.tie_tolerance} is of ranks, and --shaping {self.shaping} "
                f"has none: give --shaping {' or '.join(_RANKED)}, or add --tie-tolerance 0"
            )

    @property
    def _shaping(self) -> Shaping:
        """Return the function from returns to weights."""
        if self.shaping in _RANKED:
            return partial(centered_ranks, tie_tolerance=self.tie_tolerance)
        return _SHAPINGS[self.shaping]

    def _refuse_high_floors(self) -> None:
        """Refuse a floor above the first value, which would raise it."""
        for name in ("std", "learning_rate"):
            value: float = getattr(self, name)
            floor: float = getattr(self, f"{name}_floor")
            if floor > value:
                flag = name.replace("_", "-")
                raise ValueError(
                    f"--{flag}-floor must be at most --{flag}, got {floor} above {value}"
                )

    def _refuse_initialization(self) -> None:
        """Refuse a rule of initial weights that nothing would follow."""
        plain, scale = ES.initialization, ES.output_scale
        if self.policy not in ("mlp", "linear") and (
            self.initialization != plain or self.output_scale != scale
        ):
            raise ValueError(
                f"--initialization and --output-scale are of --policy mlp and linear: "
                f"{self.policy} has its own initial parameters"
            )
        if self.initialization == "uniform" and self.output_scale != scale:
            raise ValueError("--output-scale has no meaning with --initialization uniform")

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        if self.objective:
            return objective_packages(self)
        return searching_packages(self, self.policy)

    def build(self, layout: SearchLayout) -> GenerationalRecipe:
        """Put the parts together; only here do names become functions."""
        if self.objective:
            objective, start = searched_objective(self)
            return self._recipe(layout, None, objective, FirstPolicy(start))
        environment, policy = environment_and_policy(self, self.policy, self.hidden)
        rng = seeding.generator(self.seed, "initial-parameters")
        rule = Initialization(self.initialization, self.output_scale)
        first = first_policy(self, policy, initial_parameters(policy, rng, rule))
        return self._recipe(layout, policy, environment, first)

    def _recipe(
        self,
        layout: SearchLayout,
        policy: PolicySpec | None,
        searched: EnvironmentSpec | Objective,
        first: FirstPolicy,
    ) -> GenerationalRecipe:
        threads, parameters = layout.update_thread_count, first.parameters
        if self.subspace > parameters.size:
            raise ValueError(
                f"--subspace {self.subspace} has more dimensions than there are parameters "
                f"({parameters.size})"
            )
        low_rank = low_rank_of(self, searched, policy)
        noise, shared = make_shared(
            self, parameters.size, threads, policy, low_rank, reference=first.reference
        )
        observed = 0 if policy is None or policy.convolutions else policy.observation_size
        strategy = self.strategy(parameters, noise, observed, threads, first.moments)
        perturb = self.subset_fraction if self.subset == "perturb" else None
        noise_seed = None if uses_table(self, parameters.size) else self.seed
        if isinstance(searched, Objective):
            worker = ObjectiveSpec(
                searched, noise_seed, perturb, self._subspace(parameters.size), low_rank
            )
        else:
            assert policy is not None, "an environment needs a policy"
            worker = EvaluatorSpec(
                environment=searched,
                policy=policy,
                noise_seed=noise_seed,
                subset_fraction=perturb,
                subspace=self._subspace(parameters.size),
                action_noise_std=self.action_noise_std,
                sign_fitness=self.shaping == "sign-rank",
                reward_shift=self.reward_shift,
                low_rank=low_rank,
            )
        return GenerationalRecipe(
            config=self,
            strategy=strategy,
            plan=GenerationPlan(
                self.population_size,
                self.generation_env_steps,
                rehearse=self.promise,
                objective=self.objective,
                members_per_call=self.members_per_call,
            ),
            worker=worker,
            policy=policy,
            shared=shared,
            replica=SearchReplicaSpec(self, parameters.size, observed, low_rank),
        )

    def strategy(
        self,
        parameters: np.ndarray,
        noise: Noise,
        observation_size: int,
        threads: int,
        moments: Moments | None = None,
    ) -> OpenAIES | SubspaceES:
        """Return the strategy with its first parameters; `observation_size` 0: without moments.

        `moments`: those of observations at the start, if a policy was trained before.
        """
        spec = self._subspace(parameters.size)
        if spec is None:
            return self._search(parameters, noise, observation_size, threads, moments)
        coordinates = np.zeros(spec.dimensions, np.float32)
        search = self._search(coordinates, noise, observation_size, threads, moments)
        return SubspaceES(parameters, spec.of(noise), search, threads)

    def _subspace(self, parameter_count: int) -> SubspaceSpec | None:
        if not self.subspace:
            return None
        return SubspaceSpec(self.subspace, parameter_count, self.seed)

    def _search(
        self,
        parameters: np.ndarray,
        noise: Noise,
        observation_size: int,
        threads: int,
        first: Moments | None,
    ) -> OpenAIES:
        moments = None
        if observation_size and self.normalize:
            moments = ObservationMoments(observation_size, first=first)
        contributing = self.obs_stat_probability if observation_size else 0.0
        return OpenAIES(
            parameters,
            MirroredSampler(self.seed, noise, self.common_seeds, contributing)
            if self.mirrored
            else IndependentSampler(self.seed, noise, contributing),
            _optimizer(self, parameters.size),
            decaying_std(self.std, self.std_decay, self.std_floor),
            shaping=self._shaping,
            moments=moments,
            episode_cap=parse_episode_cap(self.episode_cap),
            perturb_fraction=self.subset_fraction if self.subset == "perturb" else None,
            use_fraction=self.subset_fraction if self.subset == "use" else None,
            update_threads=threads,
            step_scale=decaying(
                1.0, self.learning_rate_decay, self.learning_rate_floor / self.learning_rate
            ),
        )


def _refuse_uneven_blocks(fraction: float) -> None:
    """Raise ValueError unless parameters can be cut into equal blocks of that share."""
    blocks = block_count(fraction) if fraction > 0.0 else 0
    if not blocks or abs(fraction * blocks - 1.0) > _UNEVEN:
        more = max(1, math.floor(1.0 / fraction)) if fraction > 0.0 else 4
        raise ValueError(
            f"--subset-fraction {fraction}: parameters are cut into equal blocks. Give "
            f"{1 / more:.3g} ({more}) or {1 / (more + 1):.3g} ({more + 1})"
        )


def _optimizer(config: ES, size: int) -> Optimizer:
    if config.optimizer == "adam":
        return Adam(size, learning_rate=config.learning_rate, weight_decay=config.weight_decay)
    return SGD(
        size,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
    )
