"""P-CEM-RL of the AES-RL release as a recipe: CEM-RL on logical workers, with a barrier."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

from drumline.populations.cem_rl import GenerationPopulation
from drumline.populations.critic_turns import CriticTurns, TurnsBeside, TurnsOfMembers
from drumline.recipes.cem import search
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refining import generational_parts, generational_plan
from drumline.recipes.refused_values import (
    is_chosen,
    refuse_device_on_ray,
    refuse_nonpositive,
    refuse_unusable_distribution,
    refuse_unusable_refining,
    refuse_unusable_replay,
    refuse_unusable_training,
)
from drumline.recipes.shared_fields import ClockFields, CrossEntropyFields, RefinementFields
from drumline.recipes.virtual_clock import (
    no_promise_by_clock,
    refuse_unusable_clock,
    virtual_costs,
    with_whole_path,
)
from drumline.training.layout import Layout, SteadyLayout
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
class PCEMRL(CrossEntropyFields, ClockFields, RefinementFields):
    """P-CEM-RL: CEM-RL on logical workers, with a barrier per generation."""

    evaluate_every: int = 5
    """Updates (generations) between evaluations of the mean; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    mean_evaluations: int = 1
    """Episodes of the mean at the end of each generation, while all workers wait; 0: none."""
    warmup_steps: int = 10_000
    """Env steps before the first gradient step."""
    replay_size: int = 1_000_000
    """Transitions that are kept."""
    batch_size: int = 256
    """Transitions per gradient step."""
    damp_decay: float = 0.9
    """Share of ε that is kept per generation; CEM-RL's code has 0.95."""
    refined_members: int = 5
    """R: members of a generation that are refined by gradient steps (n_grad)."""
    actor_steps_scale: float = 1.0
    """Gradient steps of a refined member per env step of the generation before."""
    critic_steps_scale: float = 1.0
    """serial: gradient steps of the critics, shared out among refined members, per env step of the
    generation before."""
    warmup: Literal["population", "random"] = "random"
    """population: generations that are told and not refined; random: episodes with random actions,
    of which the strategy is not told."""
    critic: Literal["serial", "parallel"] = "serial"
    """serial: critics learn between generations, while all workers wait; parallel: all the time."""
    critic_batches: int = 1000
    """parallel: gradient steps of one critic job."""
    throttle_critic: bool = False
    """parallel: take no more gradient steps than there were env steps, as aes does."""

    LAYOUT: ClassVar[type[Layout]] = SteadyLayout
    PRESETS: ClassVar[Presets] = {
        "CartPole-v1": {**_SMALL, "env_step_cost": 40_000},
        "Pendulum-v1": {**_SMALL, "env_step_cost": 45_000, "least_env_steps": 200},
        "InvertedPendulum-v5": {**_SMALL, "env_step_cost": 90_000},
        "HalfCheetah-v5": {"least_env_steps": 1000},
        "Hopper-v5": {},
        "Walker2d-v5": {},
        "Swimmer-v5": {"least_env_steps": 1000},
        "Ant-v5": {"env_step_cost": 400_000},
        "Humanoid-v5": {
            "hidden": (256, 256),
            "learning_rate": 3e-4,
            "env_step_cost": 550_000,
        },
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_training(self)
        refuse_unusable_replay(self)
        refuse_unusable_distribution(self)
        refuse_unusable_refining(self)
        refuse_unusable_clock(self)
        refuse_nonpositive(self, "critic_batches")
        if self.throttle_critic and self.critic == "serial":
            raise ValueError(
                "--throttle-critic goes with --critic parallel: a serial critic takes "
                "--critic-steps-scale steps per env step"
            )
        if self.unread(vars(self)):
            raise ValueError(
                f"--critic-steps-scale {self.critic_steps_scale} goes with --critic serial: a "
                "parallel critic takes jobs of --critic-batches steps"
            )

    @classmethod
    def unread(cls, fields: Mapping[str, Any]) -> list[str]:
        """Return the names of values that no default or preset has and nothing reads."""
        if fields.get("critic", cls.critic) == "serial":
            return []
        return [n for n in ("critic_steps_scale",) if is_chosen(cls, fields, n)]

    @property
    def no_promise(self) -> str:
        """Return why this run cannot be repeated; empty if it can."""
        return no_promise_by_clock(self)

    def resolved(self) -> Self:
        """Return the config with the log's absolute path."""
        return with_whole_path(self)

    def build(self, layout: SteadyLayout) -> SteadyRecipe:
        """Put the parts together; only here do names become functions."""
        refuse_device_on_ray(self, layout)
        parts = generational_parts(self)
        plan = replace(
            generational_plan(self),
            throttle_critic=self.throttle_critic,
            least_env_steps=parts.actor.least(self.least_env_steps),
        )
        turns: CriticTurns = TurnsOfMembers(all_first=True)
        if self.critic == "parallel":
            turns = TurnsBeside(self.critic_batches)
        population = partial(
            GenerationPopulation,
            plan,
            search(self, parts.actor.first_parameters(self.seed)),
            turns,
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
            concurrency=self.concurrency,
            longest_episode=parts.actor.longest,
            costs=virtual_costs(self, parts.actor.counted_sizes, parts.critic_sizes),
            order=self,
        )
