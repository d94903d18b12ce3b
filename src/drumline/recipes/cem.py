"""CEM as a recipe: CEM-RL's search without its gradient steps."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from drumline.algorithms.candidate_generations import POPULATION, CandidateGenerations
from drumline.algorithms.cem import CEM as Strategy
from drumline.envs.make import resolve_engine
from drumline.envs.packages import environment_packages
from drumline.recipes.families import CrossEntropy, Fields
from drumline.recipes.learned_actor import learned_actor
from drumline.recipes.method import Presets, torch_packages
from drumline.recipes.objectives import check_objective, objective_packages, searched_objective
from drumline.recipes.refused_values import refuse_unusable_distribution, refuse_unusable_training
from drumline.schedules.generational import GenerationPlan
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.objective import ObjectiveSpec

_SMALL = {"hidden": (64, 64), "initial_variance": 1e-2, "damp": 1e-2}


_ENVIRONMENT_FIELDS = (
    *("engine", "frame_skip", "hidden", "evaluate_max_steps", "activation"),
    *("max_episode_steps", "env_kwargs", "flatten_observations", "network"),
)


@dataclass(frozen=True)
class CEM:
    """The cross-entropy method of CEM-RL (Pourchot & Sigaud 2019), without gradient steps."""

    env: str = ""
    """Gymnasium id, EnvPool id, or module:factory; empty with --objective."""
    seed: int = 0
    """Root of every random stream."""
    total_steps: int = 1_000_000
    """Train until this many env steps (agent decisions) have been made."""
    engine: Literal["auto", "gymnasium", "envpool"] = "auto"
    """auto: Gymnasium if it has the id, else EnvPool."""
    max_episode_steps: int = 0
    """Longest episode in env steps, in evaluations too; 0: as long as the environment lets it."""
    env_kwargs: str = ""
    """Arguments of the environment's constructor as JSON, as in '{"forward_reward_weight": 2}'."""
    flatten_observations: bool = False
    """Make one vector of observations in parts (Dict, Tuple, Discrete), as Gymnasium does."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the actor's hidden layers."""
    network: str = "mlp"
    """mlp, or package.module:Class of a torch.nn.Module of your own, for the actor."""
    evaluate_every: int = 50
    """Updates between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    population_size: int = 10
    """Individuals, and episodes, per generation."""
    elites: int = 5
    """K: individuals that make the next distribution."""
    initial_variance: float = 1e-3
    """Variance of each parameter at the start."""
    damp: float = 1e-3
    """ε at the start, added to the variance."""
    damp_limit: float = 1e-5
    """ε in the limit."""
    damp_decay: float = 0.95
    """Share of ε that is kept per generation; the AES-RL release has 0.9."""
    antithetic: bool = True
    """Whether members i and i + N/2 have opposite noise."""
    divide_by_elites: bool = True
    """Whether the variance is divided by K once more, as in CEM-RL's code."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the actor's hidden layers."""
    policy: str = "mlp"
    """mlp; with --objective package.module:Class of a torch.nn.Module without arguments."""
    objective: str = ""
    """module:function of (parameters, seed) whose value is searched, in place of an environment."""
    dimensions: int = 0
    """--objective: number of parameters, which begin at 0."""
    initial: str = ""
    """--objective: module:function that returns the first parameters for a seed."""
    seeds_per_call: int = 1
    """--objective: seeds of one call, which returns as many values; their mean is the fitness."""
    working_precision: Literal["fp32", "bf16"] = "fp32"
    """--objective with --policy: of the module's tensors in a worker; the search's are float32."""
    trainable: str = ""
    """--objective with --policy: regular expression of the names of parameters to search; empty:
    all that require gradients."""

    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": {**_SMALL, "total_steps": 100_000},
        "Pendulum-v1": {**_SMALL, "total_steps": 200_000},
        "InvertedPendulum-v5": {**_SMALL, "total_steps": 200_000},
        "HalfCheetah-v5": {},
        "Hopper-v5": {},
        "Walker2d-v5": {},
        "Swimmer-v5": {},
        "Ant-v5": {},
        "Humanoid-v5": {"hidden": (256, 256)},
    }

    OBJECTIVE: ClassVar[Fields] = {"initial_variance": 0.1, "damp": 1e-2, "total_steps": 100_000}

    def __post_init__(self) -> None:
        check_objective(self, _ENVIRONMENT_FIELDS)
        if self.env and self.policy != "mlp":
            raise ValueError(f"--policy {self.policy!r}: cem trains an mlp")
        refuse_unusable_training(self)
        refuse_unusable_distribution(self)

    def packages(self) -> tuple[str, ...]:
        """Return the packages that compute in a run."""
        if self.objective:
            return objective_packages(self)
        if ":" in self.network:
            return torch_packages(self)
        return environment_packages(self.env, resolve_engine(self.env, self.engine))

    def build(self, layout: Layout) -> GenerationalRecipe:
        """Put the parts together."""
        if self.objective:
            objective, start = searched_objective(self)
            worker, policy = ObjectiveSpec(objective, noise_seed=self.seed), None
        else:
            actor = learned_actor(self, self.activation, differentiates=False)
            start, policy = actor.first_parameters(self.seed), actor.policy
            worker = EvaluatorSpec(actor.environment, policy, noise_seed=self.seed)
        return GenerationalRecipe(
            config=self,
            strategy=CandidateGenerations(search(self, start), self.population_size, self.seed),
            plan=GenerationPlan(
                self.population_size, rehearse=self.promise, objective=self.objective
            ),
            worker=worker,
            policy=policy,
            not_policy=(POPULATION,),
        )


def search(config: CrossEntropy, mean: np.ndarray) -> Strategy:
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
