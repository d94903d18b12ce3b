"""Parts of every actor-critic recipe: environments, network, learner."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from drumline import seeding
from drumline.buffers.rollout import RolloutShape
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.renewals import intervals_between_renewals, longest_restore
from drumline.envs.timing import parse_step_time
from drumline.functional.losses import LossOfInterval
from drumline.policies.actions import ActionHead, head_for
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.network_spec import NetworkSpec
from drumline.protocols import Learner
from drumline.recipes.action_bounds import warn_of_far_bounds
from drumline.recipes.chosen_environment import chosen_environment
from drumline.recipes.families import ActorCritic, Config, Rollouts, Space
from drumline.recipes.first_policies import trained_policy
from drumline.recipes.method import torch_packages
from drumline.recipes.pictures import chosen_network, warn_of_pictures
from drumline.training.actor_critic_parts import ActorCriticParts


def packages_with_network(config: ActorCritic) -> tuple[str, ...]:
    """Return the packages that compute in a run: the learner is always torch's."""
    return torch_packages(config, "envpool")


def make_learner(
    parts: ActorCriticParts,
    pause: Callable[[], None],
    acting_threads: int,
    *,
    loss_of: Callable[[Config], LossOfInterval] | None = None,
) -> Learner:
    """Return the learner of a method's parts; between updates torch has `acting_threads`.

    `loss_of`: config → loss of each interval, for a method with a loss of its own.
    """
    from drumline.recipes import learners  # imports torch: not at start-up

    return learners.make_learner(parts, pause, acting_threads, loss_of=loss_of)


def with_inference_rows(config: Rollouts, acting_threads: int = 1) -> Rollouts:
    """Return the config with the rows that keep the bits of the forward pass, or refuse it."""

    from drumline.functional.torch_threads import limit_torch
    from drumline.policies.actor_critic import initial_parameters
    from drumline.policies.invariance import choose_rows

    limit_torch(acting_threads)
    parts = parts_of(config)
    network = parts.network
    config = dataclasses.replace(config, network=network.network)
    if config.renew_intervals < 0:
        config = dataclasses.replace(config, renew_intervals=parts.config.renew_intervals)
    rng = seeding.generator(0, "self-check")
    shape = (max(config.num_envs, 4), *network.observation_shape)
    if network.observation_dtype == "|u1":
        observations = rng.integers(0, 256, shape, dtype=np.uint8)
    else:
        observations = rng.standard_normal(shape).astype(network.observation_dtype)
    size = network.observation_size
    arrays = {
        "parameters": initial_parameters(network, config.seed),
        "observation_mean": np.zeros(size),
        "observation_inverse_std": np.ones(size),
    }
    # One place says where a network acts: the parts.
    spec = dataclasses.replace(parts.inference(), network=network, rows=0)
    if config.device != "cpu":
        from drumline.recipes.device_trials import try_gradient

        try_gradient(network, config.device, observations[:4])
    rows = choose_rows(spec, arrays, observations)
    if config.inference_rows not in (-1, rows):
        raise ValueError(
            f"the run's forward passes have --inference-rows {config.inference_rows}, but on this "
            f"machine the bits of a row are kept with {rows}: go on where the run was made"
        )
    return dataclasses.replace(config, inference_rows=rows)


def parts_of(config: ActorCritic) -> ActorCriticParts:
    """Make one environment to learn its spaces, and describe what fits them."""
    environment = chosen_environment(config, prefer="envpool")
    law = parse_step_time(config.step_time) if config.step_time else None
    checkpoints = config.reward == "scoring-checkpoints"
    lanes = LanesSpec(environment, config.seed, 0, config.num_envs, law, checkpoints)
    probe = dataclasses.replace(lanes, count=1)()
    try:
        observations, actions = probe.observation_space, probe.action_space
        renewed, stack, endless = probe.needs_renewal, probe.stack, probe.endless
        limit = probe.limit
    finally:
        probe.close()
    sizes = config.env, config.num_envs, config.alpha
    if config.renew_intervals < 0 or not renewed:
        every = intervals_between_renewals(*sizes) if renewed else 0
        config = dataclasses.replace(config, renew_intervals=every)
    head = head_for(actions)
    warn_of_far_bounds(config.env, actions)
    dtype = np.dtype(observations.dtype)
    seen = tuple(observations.shape), dtype.str
    if config.normalize_observations and dtype == np.uint8:
        raise ValueError(
            "--normalize-observations has no effect on observations of bytes, which are divided by "
            f"255, and {config.env} has such: give --no-normalize-observations"
        )
    chosen = chosen_network(config.env, config.network, *seen)
    config = dataclasses.replace(config, network=chosen)
    network = NetworkSpec(
        tuple(observations.shape),
        dtype.str,
        head,
        network=config.network,
        hidden=config.hidden,
        normalize=config.normalize_observations,
    )
    if config.normalize_observations and not network.is_mlp:
        raise ValueError(f"--normalize-observations goes with --network mlp, not {config.network}")
    if network.is_mlp:
        warn_of_pictures(config.env, *seen)
    item = dtype.itemsize * math.prod(observations.shape)
    shape = RolloutShape(
        alpha=config.alpha,
        environments=config.num_envs,
        observation_shape=tuple(observations.shape),
        observation_dtype=dtype.str,
        action_shape=head.action_shape,
        action_dtype=head.action_dtype,
        noise_size=head.noise_size,
        truncations=config.truncations_per_interval
        or room_for_truncations(config.alpha, limit, 2 * config.num_envs * item),
        stack=stack,
        scores=checkpoints,
    )
    several = head.kind == "multi-discrete"
    starts = tuple(actions.start.tolist()) if several else ()
    choices_dtype = actions.dtype.str if several else ActorCriticSpec.choices_dtype
    policy_head = _policy_head(head, actions)
    restore = None
    if renewed:
        restore = longest_restore(*sizes, config.renew_intervals, config.total_steps)
    return ActorCriticParts(
        *(config, lanes, renewed, shape, network, policy_head, starts, choices_dtype),
        restore=restore,
        endless=endless,
        first=trained_policy(config, network),
    )


def room_for_truncations(alpha: int, limit: int, size: int) -> int:
    """Return how many cut episodes an interval of an environment has room for.

    A time limit bounds their number. Others are unlikely to be many: of large observations there is
    room for 16 MiB. `size`: bytes of one for each environment and storage.
    """
    most = -(-alpha // limit) if limit else 0
    return max(4, most, min(alpha, (16 << 20) // size))


def _policy_head(head: ActionHead, space: Space) -> Head | None:
    if head.kind == "categorical":
        return Head("discrete", choices=head.sizes[0], start=int(space.start))
    if head.kind == "gaussian":
        low, high = space.low.ravel().tolist(), space.high.ravel().tolist()
        return Head(
            "continuous",
            low=tuple(low),
            high=tuple(high),
            shape=tuple(space.shape),
            dtype=space.dtype.str,
        )
    return None
