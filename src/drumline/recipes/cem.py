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
from drumline.recipes.shared_fields import CrossEntropyFields, SearchFields
from drumline.schedules.generational import GenerationPlan
from drumline.training.generational_run import GenerationalRecipe
from drumline.training.layout import Layout
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.objective_worker import ObjectiveSpec

_SMALL = {"hidden": (64, 64), "initial_variance": 1e-2, "damp": 1e-2}


_ENVIRONMENT_FIELDS = (
    *("engine", "frame_skip", "hidden", "evaluate_max_steps", "activation"),
    *("max_episode_steps", "env_kwargs", "flatten_observations", "network"),
    "scale_bytes",
)


@dataclass(frozen=True)
class CEM(CrossEntropyFields, SearchFields):
    """The cross-entropy method of CEM-RL (Pourchot & Sigaud 2019), without gradient steps."""

    hidden: tuple[int, ...] = (400, 300)
    """Sizes of the actor's hidden layers."""
    network: str = "mlp"
    """mlp, or package.module:Class of a torch.nn.Module of your own, for the actor."""
    scale_bytes: bool = True
    """Divide observations of bytes by 255."""
    evaluate_every: int = 50
    """Updates between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    damp_decay: float = 0.95
    """Share of ε that is kept per generation; the AES-RL release has 0.9."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the actor's hidden layers."""
    policy: str = "mlp"
    """mlp; with --objective package.module:Class of a torch.nn.Module without arguments."""

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
