"""TD3's learner from a config: the place where its run imports torch."""

from dataclasses import replace
from typing import TYPE_CHECKING

from drumline.algorithms.dense_stack import parameter_count
from drumline.algorithms.device_draws import DeviceDraws
from drumline.algorithms.td3 import TD3, Draws
from drumline.algorithms.td3_steps import TD3Settings
from drumline.buffers.minibatches import Minibatches
from drumline.buffers.replay import Replay
from drumline.functional.torch_threads import limit_torch
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.spec import PolicySpec
from drumline.recipes.first_policies import described_critics

if TYPE_CHECKING:
    from drumline.recipes.td3 import TD3 as TD3Config


def make_learner(
    config: "TD3Config", policy: PolicySpec, replay: Replay, trained: FirstPolicy | None = None
) -> TD3:
    """Return the learner over a replay, on the threads that its config gives it.

    `trained`: actor, and critics if they fit, at the start; None: drawn from the seed.
    """
    limit_torch(config.learner_threads)
    settings = settings_of(config, policy)
    draws = draws_of(settings, replay)
    if trained is None:
        return TD3(settings, draws, config.seed)
    shape = (settings.critics, parameter_count(settings.critic_sizes))
    described = described_critics(config, config.hidden, config.critic_activation)
    critics = trained.critics_for(shape, described)
    return TD3(settings, draws, config.seed, actor=trained.parameters, critics=critics)


def draws_of(settings: TD3Settings, replay: Replay) -> Draws:
    """Return the minibatches of a replay, where the settings' gradient steps are."""
    draws = Minibatches(replay, settings.batch_size, settings.noise_size)
    return draws if settings.place is None else DeviceDraws(draws, settings.place)


def settings_of(config: "TD3Config", policy: PolicySpec) -> TD3Settings:
    """Return the settings of losses and steps that a config describes."""
    own = None if policy.module is None else replace(policy, scale_bytes=False)
    return TD3Settings(
        policy.observation_size,
        policy.head,
        actor_hidden=config.hidden,
        critic_hidden=config.hidden,
        actor_activation=config.activation,
        critic_activation=config.critic_activation,
        critics=config.critics,
        batch_size=config.batch_size,
        discount=config.discount,
        polyak=config.polyak,
        actor_learning_rate=config.learning_rate,
        critic_learning_rate=config.learning_rate,
        target_noise=config.target_noise,
        target_noise_clip=config.target_noise_clip,
        scale_target_noise=config.scale_target_noise,
        policy_delay=config.policy_delay,
        precision=config.precision,
        observation_scale=policy.observation_scale,
        actor=own,  # minibatches are scaled before it gets them
        device=config.device,
    )
