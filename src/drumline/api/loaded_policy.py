"""A saved policy for Python: acts for one observation or a batch, and becomes a torch module."""

from math import prod
from typing import Any

import numpy as np

from drumline.api.foreign_code import CodeTrust
from drumline.api.process_as_found import process_as_found
from drumline.api.stored_policy import MOMENTS, load_policy, policy_spec, stored_module
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.sampled import SampledPolicy
from drumline.policies.spec import REFERENCE, PolicySpec
from drumline.protocols import Policy
from drumline.runs.policy_files import StoredPolicy


class LoadedModule:
    """The torch module of a run's objective, which acts in no environment."""

    def __init__(self, stored: StoredPolicy, trust: CodeTrust):
        self._stored, self._trust = stored, trust
        self.vector = stored.tensors["parameters"]
        self.parameter_count = self.vector.size

    def to_torch(self) -> Any:
        """Return the `torch.nn.Module` with the saved parameters, in `eval` mode."""
        return stored_module(self._stored, self._trust)


class LoadedPolicy:
    """The most likely actions of a saved policy; a `Policy` of the interfaces, and more."""

    def __init__(self, stored: StoredPolicy, trust: CodeTrust, action_noise_std: float = 0.0):
        """`action_noise_std`: that of the run's training, where actions are drawn with it."""
        self._action_noise_std = action_noise_std
        self._policy: Policy = load_policy(stored, trust)
        self._stored = stored
        self.spec = policy_spec(stored)
        """Network and actions, as the policy file describes them."""
        self.parameter_count = self._policy.parameter_count
        self.vector = self._policy.vector
        self.to_action = self._policy.to_action
        self.load_vector = self._policy.load_vector
        self.load_moments = self._policy.load_moments
        self.loaded = self._policy.loaded
        self.output = self._policy.output
        self._sampled: SampledPolicy | None = None

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Return the shape of one observation; flat where the file says its size alone."""
        if isinstance(self.spec, ActorCriticSpec):
            return self.spec.network.observation_shape
        return self.spec.image or (self.spec.observation_size,)

    def act(self, observation: Any, *, rng: np.random.Generator | None = None) -> Any:
        """Return the action for an observation, or the actions `[N, …]` for a batch `[N, …]`.

        Each action of a batch has the bits of the action for its observation alone. An array
        `[1, …]` is a batch of one, unless the file says that an observation has that shape.
        With a generator `rng` actions are drawn, as in training; without one they are the most
        likely ones. ValueError for a policy without a distribution.
        """
        act = self._policy.act if rng is None else self._drawing(rng).act
        try:
            given = np.asarray(observation)
        except ValueError:  # parts of several shapes
            given = None
        in_parts = isinstance(observation, (dict, tuple, list))
        if given is None or (in_parts and given.dtype == object):
            raise ValueError(
                "act takes the vector that training had, not its parts: "
                "gymnasium.spaces.flatten(observation_space, observation) makes it"
            )
        if self._image:
            given = self._as_images(given)
        if not self._is_batch(given):
            return act(given)
        if not len(given):
            raise ValueError("act takes a batch of one observation or more, got none")
        return np.stack([np.asarray(act(row)) for row in given])

    def _drawing(self, rng: np.random.Generator) -> Policy:
        if self._sampled is None:
            self._sampled = SampledPolicy(self._policy, self.spec, self._action_noise_std)
        self._sampled.begin(rng)
        return self._sampled

    @process_as_found()
    def to_torch(self) -> Any:
        """Return a `torch.nn.Module`, observations `[N, …]` → actions `[N, …]`.

        Its numbers are torch's: equal to those of `act` up to rounding.
        """
        from drumline.policies.exported_module import torch_policy  # imports torch

        tensors = self._stored.tensors
        mean, inverse_std = (tensors.get(name) for name in MOMENTS)
        moments = None if mean is None or inverse_std is None else (mean, inverse_std)
        return torch_policy(self.spec, tensors["parameters"], moments, tensors.get(REFERENCE))

    @property
    def _image(self) -> bool:
        """Return whether the policy takes images of bytes."""
        if isinstance(self.spec, ActorCriticSpec):
            network = self.spec.network
            return len(network.observation_shape) == 3 and network.observation_dtype == "|u1"
        return bool(self.spec.image)

    def _as_images(self, given: np.ndarray) -> np.ndarray:
        """Return images as bytes; ValueError unless they have the shape and values from 0 to 255.

        Another order of the axes has as many values, and other actions.
        """
        shape, size = self.observation_shape, prod(self.observation_shape)
        if given.shape not in (shape, (size,)) and given.shape[1:] not in (shape, (size,)):
            raise self._no_observation(given)
        if given.dtype != np.uint8:
            whole = given.dtype.kind in "iu"
            if given.size and not (whole and given.min() >= 0 and given.max() <= 255):
                raise ValueError(
                    f"act takes images of bytes, whole numbers from 0 to 255 as in training, got "
                    f"values of {given.dtype}: convert them with .astype(numpy.uint8)"
                )
            given = given.astype(np.uint8)
        return given.reshape(shape if given.shape in (shape, (size,)) else (-1, *shape))

    def _no_observation(self, given: np.ndarray) -> ValueError:
        return ValueError(
            f"act takes an observation of shape {list(self.observation_shape)} or a batch of "
            f"such, got one of shape {list(given.shape)}"
        )

    def _is_batch(self, given: np.ndarray) -> bool:
        shape, size = self.observation_shape, prod(self.observation_shape)
        if isinstance(self.spec, PolicySpec):
            shape = self.spec.module_shape or shape
        if given.shape == shape:
            return False
        if given.ndim > 0 and given.shape[1:] == shape:
            return True
        if given.ndim > 1 and given.size == len(given) * size:
            return True
        if given.size != size:
            raise self._no_observation(given)
        return False
