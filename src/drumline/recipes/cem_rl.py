"""CEM-RL as a recipe: its config, its presets and its parts."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from drumline.populations.cem_rl import GenerationPopulation
from drumline.populations.critic_turns import TurnsOfMembers
from drumline.recipes.cem import search
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refining import generational_parts, generational_plan
from drumline.recipes.refused_values import (
    refuse_device_on_ray,
    refuse_unusable_distribution,
    refuse_unusable_refining,
    refuse_unusable_replay,
    refuse_unusable_training,
)
from drumline.recipes.shared_fields import CrossEntropyFields, RefinementFields
from drumline.training.layout import Layout
from drumline.training.steady_recipes import SteadyRecipe

_SMALL = {
    "total_steps": 50_000,
    "warmup_steps": 1_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "initial_variance": 1e-2,
    "damp": 1e-2,
}


@dataclass(frozen=True)
class CEMRL(CrossEntropyFields, RefinementFields):
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
    damp_decay: float = 0.95
    """Share of ε that is kept per generation; the AES-RL release has 0.9."""
    refined_members: int = 5
    """R: members of a generation that are refined by gradient steps (n_grad)."""
    actor_steps_scale: float = 1.0
    """Gradient steps of a refined member per env step of the generation before."""
    critic_steps_scale: float = 1.0
    """Gradient steps of the critics, shared out among refined members, per env step of the
    generation before."""
    warmup: Literal["population", "random"] = "population"
    """population: generations that are told and not refined; random: episodes with random actions,
    of which the strategy is not told."""

    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": _SMALL,
        "Pendulum-v1": _SMALL,
        "InvertedPendulum-v5": _SMALL,
        "HalfCheetah-v5": {},
        "Hopper-v5": {},
        "Walker2d-v5": {},
        "Swimmer-v5": {},
        "Ant-v5": {},
        "Humanoid-v5": {"hidden": (256, 256), "learning_rate": 3e-4},
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_training(self)
        refuse_unusable_replay(self)
        refuse_unusable_distribution(self)
        refuse_unusable_refining(self)

    def build(self, layout: Layout) -> SteadyRecipe:
        """Put the parts together; only here do names become functions."""
        refuse_device_on_ray(self, layout)
        parts = generational_parts(self)
        plan = generational_plan(self)
        population = partial(
            GenerationPopulation,
            plan,
            search(self, parts.actor.first_parameters(self.seed)),
            TurnsOfMembers(all_first=False),
            parts.first_critics(self.seed),
        )
        return SteadyRecipe(
            config=self,
            environment=parts.actor.environment,
            policy=parts.actor.policy,
            critics=parts.critics,
            shape=parts.shape,
            jobs=parts.jobs,
            population=population,
            concurrency=self.population_size,
            longest_episode=parts.actor.longest,
            costs=None,
        )
