"""A learner from a config: the place where a run imports torch."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from drumline.algorithms.a2c import A2C, A2CSettings
from drumline.algorithms.device_copies import DeviceCopies
from drumline.algorithms.learned_network import LearnedNetwork, Pause
from drumline.algorithms.learning_state import LearningState
from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.network_gradients import AutogradGradient, WrittenOutGradient
from drumline.algorithms.ppo import PPO, PPOSettings
from drumline.algorithms.rollout_preparation import RolloutPreparation
from drumline.algorithms.torch_optimizers import TorchAdam, TorchRMSProp
from drumline.functional.annealing import linear
from drumline.functional.losses import LossOfInterval
from drumline.functional.shards import Shards
from drumline.functional.torch_devices import device_of
from drumline.functional.torch_threads import limit_torch
from drumline.policies.actor_critic import initial_parameters
from drumline.protocols import Learner
from drumline.recipes.families import Config
from drumline.recipes.first_policies import checked_size
from drumline.recipes.losses import a2c_loss_of, baseline_of, ppo_loss_of
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.types import Metrics, Rollout

_OPTIMIZERS = {"adam": TorchAdam, "rmsprop": TorchRMSProp}
_ROWS_AT_ONCE = {"mlp": 4096, "impala-resnet": 32}
_IMAGES_AT_ONCE = 128  # more activations than this fall out of the cache (measured)
_ON_DEVICE = {"mlp": 65_536, "impala-resnet": 1024}
_IMAGES_ON_DEVICE = 4096  # by memory: about 85 kB of activations a row of nature-cnn


def make_learner(
    parts: ActorCriticParts,
    pause: Pause,
    acting_threads: int = 1,
    *,
    loss_of: Callable[[Config], LossOfInterval] | None = None,
) -> Learner:
    """Return the learner of a method's parts; between updates torch has `acting_threads`.

    `loss_of`: config → loss of each interval; None: that of A2C or PPO, as the config says.
    """
    config = parts.config
    initial = initial_parameters(parts.network, config.seed)
    if parts.first is not None:
        initial = checked_size(config, parts.first, initial).parameters
    device = device_of(getattr(config, "device", "cpu"))  # a method from outside may lack it
    written_out = parts.network.is_mlp and config.precision == "fp32" and device is None
    written_out &= parts.network.observation_dtype != "|u1"  # bytes are scaled by torch's forward
    microbatches = Microbatches(
        _ROWS_AT_ONCE.get(config.network, _IMAGES_AT_ONCE),
        multiple=1 if parts.network.is_mlp else 2,
        threads=1 if written_out else config.learner_threads,
    )
    if device is not None:
        microbatches = Microbatches(_ON_DEVICE.get(config.network, _IMAGES_ON_DEVICE))
    network = LearnedNetwork(
        parts.network,
        initial,
        precision=config.precision,
        microbatches=microbatches,
        device=device,
    )
    optimizer = _OPTIMIZERS[config.optimizer](initial.size, device=device)
    learning = LearningState(network.live, optimizer)
    make, own_loss = (_a2c, a2c_loss_of) if config.learner == "a2c" else (_ppo, ppo_loss_of)
    rate = config.learning_rate
    learner = make(
        config,
        network=network,
        learning=learning,
        preparation=_preparation(parts, None if device is None else DeviceCopies(device)),
        learning_rate=linear(rate, 0.0 if config.anneal else rate, config.intervals),
        loss=(loss_of or own_loss)(config),
        gradient=(WrittenOutGradient if written_out else AutogradGradient)(network),
        shards=parts.shards or Shards.alone(config.learners),
        pause=pause,
    )
    limit_torch(acting_threads)
    threads = config.learner_threads if written_out else 1  # torch intra-op threads
    return _OnThreads(learner, threads, acting_threads)


def _preparation(parts: ActorCriticParts, copies: DeviceCopies | None) -> RolloutPreparation:
    config = parts.config
    return RolloutPreparation(
        parts.network.observation_size,
        config.num_envs,
        discount=config.discount,
        normalize_observations=config.normalize_observations,
        scale_rewards=config.scale_rewards,
        clip_rewards=config.clip_rewards,
        renew_intervals=config.renew_intervals if parts.renewed else 0,
        copies=copies,
        moments=None if parts.first is None else parts.first.moments,
    )


def _a2c(config: Config, **parts: Any) -> Learner:
    settings = A2CSettings(
        discount=config.discount,
        unroll=config.unroll,
        gae_lambda=config.gae_lambda,
        max_gradient_norm=config.max_gradient_norm,
        correction=config.correction_used,
        baseline=baseline_of(config),
    )
    return A2C(settings=settings, **parts)


def _ppo(config: Config, **parts: Any) -> Learner:
    settings = PPOSettings(
        discount=config.discount,
        gae_lambda=config.gae_lambda,
        epochs=config.epochs,
        minibatches=config.minibatches,
        normalize_advantages=config.normalize_advantages,
        max_gradient_norm=config.max_gradient_norm,
        target_kl=config.target_kl,
        correction=config.correction_used,
        seed=config.seed,
    )
    return PPO(settings=settings, **parts)


class _OnThreads:
    """A learner whose updates run on `threads` torch threads, and acting on `acting_threads`."""

    def __init__(self, learner: Learner, threads: int, acting_threads: int):
        self._learner = learner
        self._threads = threads
        self._acting_threads = acting_threads
        self.published = learner.published
        self.state = learner.state
        self.load = learner.load

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Learn from one interval."""
        limit_torch(self._threads)
        try:
            return self._learner.update(rollout, behavior)
        finally:
            limit_torch(self._acting_threads)
