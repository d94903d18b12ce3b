"""A policy whose actions are drawn instead of the most likely ones."""

from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.policies.actions import ActionHead, sample
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head, action_function
from drumline.policies.spec import PolicySpec
from drumline.protocols import Policy

DrawnAction = Callable[[np.ndarray, np.random.Generator], Any]
"""(raw output `[O]`, generator) → action."""

_TRAINED_WITH = "drawn from the distribution that the policy was trained with"


class Deterministic(ValueError):
    """The policy has no distribution to draw from."""


class SampledPolicy:
    """Acts with `policy`'s outputs; `begin` gives each episode its own stream of numbers."""

    def __init__(self, policy: Policy, spec: PolicySpec | ActorCriticSpec, action_noise_std: float):
        self.parameter_count = policy.parameter_count
        self.vector = policy.vector
        self.load_vector = policy.load_vector
        self.load_moments = policy.load_moments
        self.loaded = policy.loaded
        self.output = policy.output
        self.to_action = self._to_action
        self._rng: np.random.Generator | None = None
        if isinstance(spec, ActorCriticSpec):
            self._draw, self.words = _from_distribution(spec)
        else:
            self._draw, self.words = _from_search(spec.head, action_noise_std)

    def begin(self, rng: np.random.Generator) -> None:
        """Start an episode whose actions are drawn from `rng`."""
        self._rng = rng

    def _to_action(self, output: np.ndarray, noise: np.ndarray | None) -> Any:
        assert self._rng is not None, "an episode begins with its stream"
        return self._draw(output, self._rng)

    def act(self, observation: np.ndarray) -> Any:
        """Return an action drawn for one observation."""
        return self.to_action(self.output(observation), None)


def _from_distribution(spec: ActorCriticSpec) -> tuple[DrawnAction, str]:
    head = spec.network.head
    bounded = None if spec.head is None else action_function(spec.head)
    discrete = head.kind != "gaussian"
    start = np.array(spec.starts or 0) if spec.head is None else spec.head.start
    kind = np.dtype(spec.choices_dtype)

    def draw(output: np.ndarray, rng: np.random.Generator) -> Any:
        noise = rng.random(head.noise_size) if discrete else rng.standard_normal(head.noise_size)
        action = sample(head, output[None], noise[None].astype(np.float32))[0][0]
        if head.kind == "categorical":
            return int(action) + start
        if bounded is None:
            return (action + start).astype(kind)
        return bounded(action.astype(np.float32), None)

    return draw, _TRAINED_WITH


def _from_search(head: Head, std: float) -> tuple[DrawnAction, str]:
    if head.has_std:
        return _noisy(head, 1.0), _TRAINED_WITH
    if head.kind in ("continuous", "squashed"):
        if not std > 0:
            raise Deterministic(
                "this policy is deterministic: its method searches without action noise, "
                "so there is nothing to sample; leave out --sample"
            )
        return _noisy(head, std), f"with the training's action noise, std {std:g}"
    sizes = (head.choices,) if head.kind == "discrete" else (len(head.bins),) * head.action_size
    choices = ActionHead("multi-discrete", sizes)
    to_action = action_function(head)

    def chosen(output: np.ndarray, rng: np.random.Generator) -> Any:
        noise = rng.random(choices.noise_size)[None].astype(np.float32)
        places = sample(choices, output[None], noise)[0][0]
        drawn = np.zeros(sum(sizes), np.float32)
        drawn[np.arange(len(sizes)) * sizes[0] + places] = 1.0  # the head takes the largest output
        return to_action(drawn, None)

    return chosen, "drawn from the softmax of the policy's outputs"


def _noisy(head: Head, std: float) -> DrawnAction:
    bounded, size = action_function(head), head.action_size

    def noisy(output: np.ndarray, rng: np.random.Generator) -> Any:
        return bounded(output, (rng.standard_normal(size) * std).astype(np.float32))

    return noisy
