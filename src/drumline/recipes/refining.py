"""Parts of populations whose members TD3's gradient steps refine, for any schedule."""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from drumline.algorithms.first_critics import first_critics, first_critics_state
from drumline.buffers.replay import ReplayShape
from drumline.populations.cem_rl import GenerationalPlan
from drumline.recipes.families import Refining, Replayed
from drumline.recipes.first_policies import described_critics
from drumline.recipes.learned_actor import LearnedActor, learned_actor, truncation_slots
from drumline.recipes.td3_jobs import TD3JobsSpec
from drumline.types import State

if TYPE_CHECKING:
    from drumline.recipes.aes import AES


class RefiningParts(NamedTuple):
    """Actor, replay and gradient steps of a config."""

    actor: LearnedActor
    shape: ReplayShape
    jobs: TD3JobsSpec
    critic_sizes: tuple[int, ...]
    critics: dict[str, Any]
    """Description of the critics in policy files."""

    def first_critics(self, seed: int) -> State:
        """Return the state of two critics: a trained policy's if they fit, else drawn ones."""
        drawn, trained = first_critics(self.critic_sizes, seed), self.actor.trained
        if trained is None:
            return drawn
        critics = trained.critics_for(drawn.tensors["critics"].shape, self.critics)
        return drawn if critics is None else first_critics_state(critics)


def replay_shape(
    config: Replayed, actor: LearnedActor, episodes: int, most_transitions: int | None = None
) -> ReplayShape:
    """Return a replay for which that many episodes may wait, while older windows are read.

    `most_transitions`: transitions before the last episodes, if that number is known.
    """
    capacity = config.replay_size
    if most_transitions is not None:
        # A ring that never fills needs no more rows, and holds the same windows.
        capacity = min(capacity, most_transitions + episodes * actor.longest)
        capacity = max(capacity, config.batch_size)
    slack = 2 * (episodes + 1) * actor.longest
    return ReplayShape(
        capacity=capacity,
        observation_size=actor.policy.observation_size,
        action_size=actor.policy.head.action_size,
        slack=slack,
        truncations=truncation_slots(capacity + slack, actor.limit),
    )


def refining_parts(
    config: "AES | Refining",
    actor_hidden: tuple[int, ...],
    individuals: int,
    most_transitions: int | None = None,
) -> RefiningParts:
    """Make the environment once, and the parts for `individuals` that live at the same time.

    `most_transitions`: transitions before the last individuals live, if that number is known.
    """
    actor = learned_actor(config, config.activation, hidden=actor_hidden)
    head, size = actor.policy.head, actor.policy.observation_size
    discrete = head.kind == "discrete"
    shape = replay_shape(config, actor, individuals, most_transitions)
    settings = {
        "observation_size": size,
        "head": head,
        "actor_hidden": actor_hidden,
        "critic_hidden": config.hidden,
        "actor_activation": config.activation,
        "critic_activation": config.critic_activation,
        "batch_size": config.batch_size,
        "discount": config.discount,
        "polyak": config.polyak,
        "actor_learning_rate": config.learning_rate,
        "critic_learning_rate": config.learning_rate,
        "target_noise": config.target_noise,
        "target_noise_clip": config.target_noise_clip,
        "scale_target_noise": False,  # as in the release: in units of actions
        "precision": config.precision,
        "observation_scale": actor.policy.observation_scale,
        "actor": actor.module,
        "device": config.device,
    }
    inputs = size if discrete else size + head.action_size
    outputs = head.output_size if discrete else 1
    critic_sizes = (inputs, *config.hidden, outputs)
    described = described_critics(config, config.hidden, config.critic_activation)
    return RefiningParts(actor, shape, TD3JobsSpec(settings, shape), critic_sizes, described)


def generational_parts(config: Refining) -> RefiningParts:
    """Make the parts of a generation whose members all live at the same time."""
    return refining_parts(
        config, config.hidden, config.population_size, most_transitions=config.total_steps
    )


def generational_plan(config: Refining) -> GenerationalPlan:
    """Return the plan of CEM-RL's generations, without a throttle of the critics."""
    return GenerationalPlan(
        seed=config.seed,
        population_size=config.population_size,
        refined_members=config.refined_members,
        warmup_steps=config.warmup_steps,
        random_warmup=config.warmup == "random",
        mean_evaluations=config.mean_evaluations,
        batch_size=config.batch_size,
        actor_steps=partial(scaled_steps, config.actor_steps_scale),
        critic_steps=partial(scaled_steps, config.critic_steps_scale),
    )


def scaled_steps(scale: float, env_steps: int) -> int:
    """Return the gradient steps for a number of env steps."""
    return round(scale * env_steps)
