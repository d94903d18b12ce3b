"""ERL as a recipe: its config, its presets and its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from drumline import seeding
from drumline.algorithms.ga import GA
from drumline.envs.environment import EnvironmentProblem
from drumline.functional.genetics import Breeding, Mutation, layer_tensors
from drumline.policies.heads import Head
from drumline.policies.mlp import uniform_vector
from drumline.populations.erl import ERLPlan, ERLPopulation
from drumline.recipes.families import Space
from drumline.recipes.first_policies import described_critics
from drumline.recipes.learned_actor import LearnedActor, learned_actor, learned_head
from drumline.recipes.method import Presets
from drumline.recipes.named_objects import name_objects
from drumline.recipes.refining import replay_shape, scaled_steps
from drumline.recipes.refused_values import (
    refuse_device_on_ray,
    refuse_empty_layers,
    refuse_negative,
    refuse_nonpositive,
    refuse_outside_unit,
    refuse_unusable_replay,
    refuse_unusable_training,
)
from drumline.recipes.shared_fields import EnvironmentFields
from drumline.recipes.td3_jobs import TD3JobsSpec
from drumline.training.layout import Layout
from drumline.training.steady_recipes import SteadyRecipe
from drumline.types import State

_LAST_LAYER = np.float32(0.1)
"""Initial scale of the RL actor's and the critic's last layers, as in ERL's code."""


_SMALL = {
    "total_steps": 50_000,
    "replay_size": 50_000,
    "hidden": (64, 64),
    "critic_hidden": (64, 64),
    "learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "polyak": 0.005,
    "sync_every": 1,
}


@dataclass(frozen=True)
class ERL(EnvironmentFields):
    """ERL (Khadka & Tumer 2018): a genetic algorithm that a DDPG actor joins."""

    total_steps: int = 2_000_000
    """Train until this many env steps (agent decisions) have been made."""
    frame_skip: int = 1
    """Frames for which each action is repeated."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the actors' hidden layers (tanh)."""
    scale_bytes: bool = True
    """Divide observations of bytes by 255."""
    evaluate_every: int = 10
    """Updates (generations) between evaluations of the champion; 0: only at the end."""
    evaluate_episodes: int = 10
    """Episodes of each evaluation."""
    evaluate_max_steps: int = 0
    """Longest episode of an evaluation in env steps; 0: as long as the environment lets it."""
    promise: bool = True
    """Run the first episode again and stop if its bits differ."""
    mean_evaluations: int = 0
    """Episodes of the champion at the end of each generation, which nothing learns from; 0: none
    (5 in ERL's code)."""
    warmup_steps: int = 0
    """Env steps before the first gradient step, for which there must also be 5 batches."""
    replay_size: int = 1_000_000
    """Transitions that are kept."""
    batch_size: int = 128
    """Transitions per gradient step."""
    learning_rate: float = 5e-5
    """Step size of Adam, for the RL actor."""
    discount: float = 0.99
    """Discount γ per env step."""
    polyak: float = 1e-3
    """Share of actor and critic that enters their targets at each step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the forward and backward passes of gradient steps."""
    device: str = "cpu"
    """Device of gradient steps: cpu, cuda or cuda:N. Episodes stay on the cores. On GPU models
    other than those of docs/determinism.md a run carries no promise."""
    population_size: int = 10
    """Members, without the RL actor."""
    episodes_per_member: int = 1
    """Episodes whose mean return is a member's fitness."""
    elite_fraction: float = 0.1
    """Share of members that are copied unchanged, at least one."""
    tournament_size: int = 3
    """Members in each tournament."""
    mutation_probability: float = 0.9
    """Probability that a member other than an elite's copy is mutated."""
    mutation_strength: float = 0.1
    """Std of a mutation, relative to the weight."""
    sync_every: int = 10
    """Generations from one joining of the RL actor to the next."""
    gradient_steps_scale: float = 1.0
    """Gradient steps of the RL actor per env step of the generation."""
    critic_hidden: tuple[int, ...] = (400, 300)
    """Sizes of the critic's hidden layers (ReLU)."""
    critic_learning_rate: float = 5e-4
    """Step size of Adam, for the critic."""
    noise_theta: float = 0.15
    """θ of the RL actor's noise: how fast it is forgotten."""
    noise_std: float = 0.2
    """σ of the RL actor's noise: std of the number added at each step."""
    noise_scale: float = 0.3
    """Scale of the RL actor's noise, in units of half the action range."""

    PRESETS: ClassVar[Presets] = {
        "Pendulum-v1": _SMALL,
        "InvertedPendulum-v5": _SMALL,
        "Hopper-v5": {
            "total_steps": 4_000_000,
            "episodes_per_member": 5,
            "elite_fraction": 0.3,
            "sync_every": 1,
        },
        "Walker2d-v5": {"total_steps": 8_000_000, "episodes_per_member": 3, "elite_fraction": 0.2},
        "Ant-v5": {"total_steps": 6_000_000, "elite_fraction": 0.3, "sync_every": 1},
        "HalfCheetah-v5": {},
        "Swimmer-v5": {},
        "Humanoid-v5": {},
    }

    def __post_init__(self) -> None:
        name_objects(self)
        refuse_unusable_training(self)
        refuse_unusable_replay(self)
        refuse_nonpositive(self, "episodes_per_member", "tournament_size", "sync_every")
        refuse_nonpositive(self, "gradient_steps_scale", "critic_learning_rate")
        refuse_negative(self, "mutation_strength", "noise_std", "noise_scale")
        refuse_outside_unit(self, "elite_fraction", "mutation_probability", "noise_theta")
        if self.population_size < 2:
            raise ValueError(f"--population-size must be 2 or more, got {self.population_size}")
        elites = Breeding(self.elite_fraction).elites(self.population_size)
        if elites >= self.population_size:
            raise ValueError(
                f"--elite-fraction {self.elite_fraction} of --population-size "
                f"{self.population_size} leaves no member but elites"
            )
        refuse_empty_layers(self, "critic_hidden")

    def build(self, layout: Layout) -> SteadyRecipe:
        """Put the parts together."""
        refuse_device_on_ray(self, layout)
        actor = learned_actor(self, head_of=continuous_head)
        head, size = actor.policy.head, actor.policy.observation_size
        episodes = self.population_size * self.episodes_per_member + 1
        shape = replay_shape(self, actor, episodes, most_transitions=self.total_steps)
        settings = {
            "observation_size": size,
            "head": head,
            "actor_hidden": self.hidden,
            "critic_hidden": self.critic_hidden,
            "actor_activation": "tanh",
            "critic_activation": "relu",
            "critics": 1,
            "batch_size": self.batch_size,
            "discount": self.discount,
            "polyak": self.polyak,
            "actor_learning_rate": self.learning_rate,
            "critic_learning_rate": self.critic_learning_rate,
            "target_noise": 0.0,
            "policy_delay": 1,
            "precision": self.precision,
            "observation_scale": actor.policy.observation_scale,
            "device": self.device,
        }
        plan = ERLPlan(
            seed=self.seed,
            population_size=self.population_size,
            episodes_per_member=self.episodes_per_member,
            sync_every=self.sync_every,
            warmup_steps=self.warmup_steps,
            least_transitions=5 * self.batch_size,
            gradient_steps=partial(scaled_steps, self.gradient_steps_scale),
            mean_evaluations=self.mean_evaluations,
            noise=(self.noise_theta, self.noise_std, self.noise_scale),
        )
        critic_sizes = (size + head.action_size, *self.critic_hidden, 1)
        critics = described_critics(self, self.critic_hidden)
        population = partial(
            ERLPopulation,
            plan,
            genetic_algorithm(self, actor),
            first_learner(actor, critic_sizes, self.seed, critics),
        )
        return SteadyRecipe(
            config=self,
            environment=actor.environment,
            policy=actor.policy,
            critics=critics,
            shape=shape,
            jobs=TD3JobsSpec(settings, shape),
            population=population,
            concurrency=self.population_size + 1,
            longest_episode=actor.longest,
            costs=None,
        )


def continuous_head(space: Space, env_id: str) -> Head:
    """Return the head of tanh scaled to the bounds; EnvironmentProblem for discrete actions."""
    if hasattr(space, "n"):
        raise EnvironmentProblem(
            f"{env_id} has {int(space.n)} discrete actions, and erl's noise is for continuous "
            f"ones: try drumline train aes {env_id}, or cem-rl"
        )
    return learned_head(space, env_id)


def genetic_algorithm(config: ERL, actor: LearnedActor) -> GA:
    """Return the population at its first parameters, each member from a stream of its own.

    A trained policy is the first member.
    """
    sizes = actor.sizes
    members = [
        uniform_vector(sizes, seeding.generator(config.seed, "initial-member", member))
        for member in range(config.population_size)
    ]
    if actor.trained is not None:
        members[0] = actor.trained.parameters
    breeding = Breeding(
        elite_fraction=config.elite_fraction,
        tournament_size=config.tournament_size,
        mutation_probability=config.mutation_probability,
        mutation=Mutation(strength=config.mutation_strength),
    )
    return GA(np.stack(members), layer_tensors(sizes), seed=config.seed, breeding=breeding)


def first_learner(
    actor: LearnedActor,
    critic_sizes: tuple[int, ...],
    seed: int,
    described: Mapping[str, Any] = MappingProxyType({}),
) -> State:
    """Return the RL actor and its critic at their first parameters, as `TD3.state` names them.

    `described`: the critic as policy files describe it; a trained one must be so.
    """
    vectors = [
        _drawn(f"initial-rl-{name}", sizes, seed)
        for name, sizes in (("actor", actor.sizes), ("critic", critic_sizes))
    ]
    if (trained := actor.trained) is not None:
        vectors[0] = trained.parameters.copy()
        critics = trained.critics_for((1, vectors[1].size), described)
        if critics is not None:
            vectors[1] = critics[0].copy()
    tensors: dict[str, np.ndarray] = {}
    for name, vector in zip(("actor", "critic"), vectors, strict=True):
        live = vector if name == "actor" else vector[None]
        plural = name if name == "actor" else "critics"
        tensors |= {plural: live, f"target_{plural}": live.copy()}
        tensors[f"{name}_adam_first"] = np.zeros(vector.size, np.float32)
        tensors[f"{name}_adam_second"] = np.zeros(vector.size, np.float32)
    return State(tensors, {"actor_steps": 0, "critic_steps": 0})


def _drawn(stream: str, sizes: tuple[int, ...], seed: int) -> np.ndarray:
    vector = uniform_vector(sizes, seeding.generator(seed, stream))
    vector[-(sizes[-2] + 1) * sizes[-1] :] *= _LAST_LAYER
    return vector
