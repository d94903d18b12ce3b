"""Checks of a config's values; each error names the flag."""

import math
import numbers
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from drumline.recipes.families import (
    ActorCritic,
    CrossEntropy,
    Epochs,
    Learned,
    Refining,
    Replayed,
)
from drumline.training.value_kinds import is_number

if TYPE_CHECKING:
    from drumline.recipes.td3 import TD3
    from drumline.training.layout import GroupedLayout, Layout


HOST = "cpu"
"""Device of the path on cores, whose bits are promised."""
REHEARSED = "cpu:0"
"""Device path without a device, for tests: the host's memory, with everything that is copied."""
_DEVICES = rf"{HOST}|{REHEARSED}|cuda(:\d+)?"


def is_chosen(kind: type[Any], fields: Mapping[str, Any], name: str) -> bool:
    """Return whether a field's value is neither the default of a config's class nor of a preset."""
    presets = [kind.PRESETS, *getattr(kind, "VARIANTS", {}).values()]
    of_env = [preset.get(fields["env"], {}) for preset in presets]
    usual = [getattr(kind, name), *(preset.get(name) for preset in of_env)]
    return fields.get(name, usual[0]) not in usual


def refuse_nonpositive(config: object, *names: str) -> None:
    """Raise for the first named field that is not above 0, or no finite number."""
    _refuse(config, names, lambda value: value > 0, "above 0")


def refuse_negative(config: object, *names: str) -> None:
    """Raise for the first named field that is below 0, or no finite number."""
    _refuse(config, names, lambda value: value >= 0, "0 or more")


def refuse_outside_unit(config: object, *names: str) -> None:
    """Raise for the first named field that is not in [0, 1]."""
    _refuse(config, names, lambda value: 0 <= value <= 1, "in [0, 1]")


def refuse_no_decay(config: object, *names: str) -> None:
    """Raise for the first named field that is not in (0, 1]."""
    _refuse(config, names, lambda value: 0 < value <= 1, "above 0 and at most 1")


def refuse_unfinite(config: object, *names: str) -> None:
    """Raise for the first named field that is no finite number."""
    _refuse(config, names, lambda value: True, "a finite number")


def refuse_unusable_training(config: Learned) -> None:
    """Raise for values of a population's training that could never work."""
    refuse_nonpositive(config, "total_steps", "frame_skip", "evaluate_episodes")
    refuse_negative(config, "evaluate_every", "evaluate_max_steps", "max_episode_steps")
    refuse_empty_layers(config, "hidden")
    refuse_unknown_actor(config)


def refuse_unknown_actor(config: "Learned | TD3") -> None:
    """Raise for an actor that is neither Drumline's MLP nor a place of a module."""
    network: str = getattr(config, "network", "mlp")
    if network != "mlp" and ":" not in network:
        raise ValueError(f"--network {network!r} is neither mlp nor package.module:Class")


def refuse_unusable_replay(config: Replayed) -> None:
    """Raise for values of a replay and its gradient steps that could never work."""
    refuse_unusable_device(config)
    refuse_nonpositive(config, "replay_size", "batch_size", "learning_rate")
    refuse_negative(config, "mean_evaluations", "warmup_steps")
    refuse_outside_unit(config, "discount", "polyak")
    refuse_small_replay(config)


def refuse_small_replay(config: "Replayed | TD3") -> None:
    """Raise for a replay that holds less than a batch."""
    if config.replay_size < config.batch_size:
        raise ValueError(
            f"--replay-size {config.replay_size} is smaller than --batch-size {config.batch_size}"
        )


def layers_of(config: object, name: str) -> tuple[Any, ...]:
    """Return the sizes of layers; ValueError for what is no tuple of numbers."""
    given: Any = getattr(config, name)
    if not hasattr(given, "__iter__") or not all(map(is_number, given)):
        flag = name.replace("_", "-")
        raise ValueError(f"--{flag} must be whole numbers, as in (64, 64), got {given!r}")
    return tuple(given)


def refuse_empty_layers(config: object, name: str) -> None:
    """Raise for a field of layer sizes that has none, or one below 1."""
    flag, layers = name.replace("_", "-"), layers_of(config, name)
    if not layers or min(layers) < 1:
        raise ValueError(f"--{flag} needs layers of 1 or more, got {layers}")


def refuse_layers_below_one(config: object, name: str) -> None:
    """Raise for a field of layer sizes with one below 1; the empty one is of a linear network."""
    flag, layers = name.replace("_", "-"), layers_of(config, name)
    if any(size < 1 for size in layers):
        raise ValueError(f"--{flag} needs layers of 1 or more, got {layers}")


def refuse_unusable_distribution(config: CrossEntropy) -> None:
    """Raise for values of a cross-entropy search that could never work."""
    size, elites = config.population_size, config.elites
    if size < 2:
        raise ValueError(f"--population-size must be 2 or more, got {size}")
    if config.antithetic and size % 2:
        raise ValueError(f"--population-size must be even with --antithetic, got {size}")
    if not 1 <= elites <= size:
        raise ValueError(f"--elites must be 1 to --population-size {size}, got {elites}")
    refuse_nonpositive(config, "initial_variance", "damp", "damp_limit")
    if config.damp_limit > config.damp:
        raise ValueError(
            f"--damp-limit must be at most --damp {config.damp}, got {config.damp_limit}"
        )
    refuse_outside_unit(config, "damp_decay")


def refuse_unusable_refining(config: Refining) -> None:
    """Raise for values of CEM-RL's gradient steps that could never work."""
    refuse_negative(config, "target_noise", "target_noise_clip")
    refuse_nonpositive(config, "actor_steps_scale", "critic_steps_scale")
    if not 0 <= config.refined_members <= config.population_size:
        raise ValueError(
            f"--refined-members must be 0 to --population-size {config.population_size}, "
            f"got {config.refined_members}"
        )


def refuse_unusable_device(config: object) -> None:
    """Raise for a device that no machine has, or for settings that a device does not serve."""
    device: str = getattr(config, "device", HOST)
    if not re.fullmatch(_DEVICES, device):
        raise ValueError(f"--device must be cpu, cuda or cuda:N, as in cuda:0, got {device!r}")
    if device == HOST:
        return
    if getattr(config, "precision", "fp32") != "fp32":
        raise ValueError(
            f"--device {device} computes in fp32 alone: leave --precision "
            f"{getattr(config, 'precision', '')} out"
        )
    if (learners := getattr(config, "learners", 1)) > 1:
        raise ValueError(
            f"--device {device} has one learner: leave --learners {learners} out, or --device"
        )


def refuse_device_on_ray(config: object, layout: "Layout") -> None:
    """Raise for gradient steps on a device of nodes that this machine knows nothing of."""
    device: str = getattr(config, "device", HOST)
    if layout.pool == "ray" and device != HOST:
        raise ValueError(
            f"--device {device} is one of this machine: leave --pool ray out, or --device"
        )


def refuse_device_of_groups(config: object, layout: "GroupedLayout") -> None:
    """Raise for groups that would each learn on a device: their shards learn on cores."""
    device: str = getattr(config, "device", HOST)
    if layout.nodes > 1 and device != HOST:
        raise ValueError(
            f"--device {device} has one learner, and each of --nodes {layout.nodes} has its own: "
            "leave --nodes out, or --device"
        )


def refuse_unusable_rollouts(config: ActorCritic) -> None:
    """Raise for values of an actor-critic method that could never work."""
    refuse_unusable_device(config)
    positive = ["total_steps", "num_envs", "alpha", "learners", "learner_threads"]
    refuse_nonpositive(config, *positive, "learning_rate", "max_gradient_norm")
    refuse_nonpositive(config, "evaluate_episodes")
    refuse_negative(config, "value_coefficient", "entropy_coefficient", "evaluate_max_steps")
    if config.final_entropy_coefficient is not None:
        refuse_negative(config, "final_entropy_coefficient")
    if config.renew_intervals != -1:  # the rule of the environment
        refuse_negative(config, "renew_intervals")
    refuse_negative(config, "truncations_per_interval", "evaluate_every", "max_episode_steps")
    refuse_outside_unit(config, "discount", "gae_lambda")
    refuse_layers_below_one(config, "hidden")
    if config.scale_rewards and config.clip_rewards:
        raise ValueError(
            "--scale-rewards and --clip-rewards both change what is learned from: leave one "
            "out, as in --scale-rewards --no-clip-rewards"
        )
    if config.num_envs % config.learners:
        raise ValueError(
            f"--learners {config.learners} must divide the {config.num_envs} environments"
        )
    if config.total_steps < config.steps_per_update:
        raise ValueError(
            f"--total-steps {config.total_steps} is less than the {config.steps_per_update} env "
            "steps that one update is made from"
        )


def refuse_unusable_epochs(config: Epochs) -> None:
    """Raise for values of PPO's own that could never work."""
    refuse_nonpositive(config, "epochs", "minibatches", "clip")
    refuse_negative(config, "target_kl")


def refuse_uneven_minibatches(config: Epochs) -> None:
    """Raise if the rows of a shard cannot be dealt evenly."""
    rows = config.num_envs // config.learners * config.alpha
    if rows % config.minibatches:
        raise ValueError(
            f"--minibatches {config.minibatches} must divide the {rows} rows of "
            f"{'each shard' if config.learners > 1 else 'an interval'} "
            "(num_envs / learners × alpha)"
        )


def _refuse(
    config: object, names: tuple[str, ...], allowed: Callable[[float], bool], words: str
) -> None:
    for name in names:
        value: Any = getattr(config, name)
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError(f"{flag} must be a number, got {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{flag} must be a finite number, got {value}")
        if not allowed(cast("float", value)):
            raise ValueError(f"{flag} must be {words}, got {value}")
