"""The actor that gradient steps can follow, for the spaces of an environment; made in one place."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from drumline import seeding
from drumline.buffers.replay import ReplayShape
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.envs.make import check_spaces, make_environment
from drumline.policies.build import build_policy, initial_parameters, refuse_frozen_parts
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.heads import Head
from drumline.policies.mlp import uniform_vector
from drumline.policies.spec import PolicySpec
from drumline.recipes.chosen_environment import environment_of_episodes
from drumline.recipes.families import Space
from drumline.recipes.first_policies import first_policy, start_of
from drumline.recipes.pictures import WITH_CONVOLUTIONS, warn_of_pictures
from drumline.schedules.single_stream import SingleStreamPlan

_LONGEST = 10_000


class ActorConfig(Protocol):
    """Fields of a config that describe an actor; any method's config may have them."""

    @property
    def env(self) -> str:
        """Return the environment's id."""
        ...

    @property
    def engine(self) -> Literal["auto", "gymnasium", "envpool"]:
        """Return the name of the package that makes the environment."""
        ...

    @property
    def frame_skip(self) -> int:
        """Return the frames for which each action is repeated."""
        ...

    @property
    def hidden(self) -> tuple[int, ...]:
        """Return the sizes of the hidden layers."""
        ...


class LearnedActor(NamedTuple):
    """Requirements of a config's environment on an actor."""

    environment: EnvironmentSpec
    policy: PolicySpec
    limit: int
    """Env steps after which an episode is cut; 0: never."""
    longest: int
    """Most env steps assumed of an episode; 10,000 where no limit is known."""
    trained: FirstPolicy | None = None
    """Policy that the config starts from; None: parameters are drawn."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the layer sizes of the actor."""
        policy = self.policy
        return (policy.observation_size, *policy.hidden, policy.head.output_size)

    def least(self, env_steps: int) -> int:
        """Return the least decisions of an episode that is no shorter than `env_steps`.

        With frames skipped it takes fewer, as its time limit does.
        """
        decisions = -(-env_steps // self.environment.frame_skip)
        return min(decisions, self.limit) if self.limit else decisions

    @property
    def counted_sizes(self) -> tuple[int, ...]:
        """Return the layer sizes whose weights the virtual clock counts.

        A network of the user's own counts as one layer with as many weights as parameters.
        """
        if self.policy.module is None:
            return self.sizes
        return (self.first_parameters(0).size, 1)

    @property
    def module(self) -> PolicySpec | None:
        """Return the actor's spec if it is a network of the user's own.

        It is for gradient steps, whose minibatches are scaled before (`TD3Settings`).
        """
        if self.policy.module is None:
            return None
        return replace(self.policy, scale_bytes=False)

    def first_parameters(self, seed: int) -> np.ndarray:
        """Return the parameters `[P]` that a search begins with."""
        return self._drawn(seed) if self.trained is None else self.trained.parameters.copy()

    def _drawn(self, seed: int) -> np.ndarray:
        rng = seeding.generator(seed, "initial-actor")
        if self.policy.module is not None:
            return initial_parameters(self.policy, rng)
        return uniform_vector(self.sizes, rng)

    def stream_replay(self, plan: SingleStreamPlan, size: int, batch_size: int) -> ReplayShape:
        """Return the shape of a single stream's replay that draws from `size` transitions."""
        # A ring that never fills needs no more rows than there are steps, and has the same windows.
        capacity = min(size, plan.blocks * plan.block)
        return ReplayShape(
            capacity=max(capacity, batch_size),
            observation_size=self.policy.observation_size,
            action_size=self.policy.head.action_size,
            slack=plan.block + 1,  # what is not on disk yet stays
            truncations=truncation_slots(capacity + plan.block + 1, self.limit),
        )


def learned_actor(
    config: ActorConfig,
    activation: Literal["tanh", "relu"] = "tanh",
    *,
    hidden: tuple[int, ...] | None = None,
    head_of: Callable[[Space, str], Head] | None = None,
    searches: bool = True,
    differentiates: bool = True,
) -> LearnedActor:
    """Make the environment once, to learn its spaces; `hidden` is the config's if not given.

    `head_of` is called with the action space and the environment's id (`learned_head`). A config
    with a field `network` may name a module of the user's own, whose frozen parameters a method
    that `searches` would move; one that `differentiates` needs parameters that are not frozen.
    """
    network = str(getattr(config, "network", "mlp"))
    layers = config.hidden if hidden is None else hidden
    environment = environment_of_episodes(config)
    # A learner from outside may take minibatches as they are, beside an mlp that does so, too.
    scales = bool(getattr(config, "scale_bytes", ":" in network))
    with closing(make_environment(environment)) as made:
        check_spaces(made.environment, config.env)
        observations = made.environment.observation_space
        shape, scales = tuple(observations.shape), scales and observations.dtype == np.uint8
        head = (head_of or learned_head)(made.environment.action_space, config.env)
    policy = PolicySpec(
        math.prod(shape),
        head,
        layers,
        normalize=False,
        activation=activation,
        scale_bytes=scales,
        flattened=shape if len(shape) > 1 else (),
    )
    if ":" in network:
        policy = replace(policy, hidden=(), module=network, module_shape=shape or (1,))
        build_policy(policy)  # refuses here what no worker could use
        refuse_frozen_parts(policy, searches=searches, differentiates=differentiates)
        device = str(getattr(config, "device", "cpu"))
        if differentiates and device != "cpu":
            from drumline.recipes.device_trials import try_actor

            try_actor(policy, device)
    else:
        warn_of_pictures(config.env, shape, observations.dtype.str, WITH_CONVOLUTIONS)
    limit = made.limit or made.wrapped_limit
    actor = LearnedActor(environment, policy, limit, limit or _LONGEST)
    if not start_of(config):
        return actor
    return actor._replace(trained=first_policy(config, policy, actor.first_parameters(0)))


def learned_head(space: Space, env_id: str) -> Head:
    """Return the head whose gradient TD3 can follow: tanh scaled to the bounds, or choices."""
    if hasattr(space, "n"):
        return Head("discrete", choices=int(space.n), start=int(space.start))
    return _squashed("squashed", space, env_id)


def gaussian_head(space: Space, env_id: str) -> Head:
    """Return the head of a stochastic policy: tanh of a normal variable, scaled to the bounds."""
    if hasattr(space, "n"):
        raise EnvironmentProblem(
            f"{env_id} has discrete actions ({space}), and this method's are continuous: "
            "choose another environment or method"
        )
    return _squashed("squashed-gaussian", space, env_id)


def _squashed(kind: Literal["squashed", "squashed-gaussian"], space: Space, env_id: str) -> Head:
    low, high = space.low.ravel().tolist(), space.high.ravel().tolist()
    with np.errstate(over="ignore"):
        width = np.float32(high) - np.float32(low)
    if not np.isfinite(width).all():  # ±float32's largest number are bounds, but too far apart
        raise EnvironmentProblem(
            f"{env_id} has actions without bounds ({space}), to which tanh cannot be scaled: give "
            "them some in a factory of your own, named as module:factory, with gymnasium.wrappers."
            "TransformAction(env, lambda action: action, "
            f"gymnasium.spaces.Box(-1.0, 1.0, {space.shape}))"
        )
    return Head(kind, tuple(low), tuple(high), tuple(space.shape), space.dtype.str)


def truncation_slots(rows: int, limit: int) -> int:
    """Return the number of cut episodes that a replay keeps: all, where they last 16 steps or the
    limit.

    An environment without a known limit may cut its episodes at any step.
    """
    return rows // min(limit, 16) + 16 if limit else rows
