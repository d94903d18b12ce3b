"""An actor-critic network as a policy for single observations: evaluation, videos, users."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.policies.actions import most_likely
from drumline.policies.heads import Head, action_function
from drumline.policies.inference import InferenceSpec
from drumline.policies.nan_outputs import with_nan_first
from drumline.policies.network_spec import NetworkSpec


@dataclass(frozen=True)
class ActorCriticSpec:
    """A network, and the conversion of its most likely action for the environment."""

    network: NetworkSpec
    head: Head | None
    """None if an action is several choices."""
    parameter_count: int
    starts: tuple[int, ...] = ()
    """The environment's number for the first of each choice, if an action is several."""
    choices_dtype: str = "<i8"
    """Dtype of such an action in the environment's space."""


class ActorCriticPolicy:
    """A `Policy` that acts with the mode of the network's distribution."""

    def __init__(self, spec: ActorCriticSpec):
        self._network = spec.network
        self._inference = InferenceSpec(spec.network)()
        self.parameter_count = spec.parameter_count
        self.vector = np.zeros(spec.parameter_count, np.float32)
        self._moments: dict[str, np.ndarray] = {}
        self._loaded = False
        bounded = None if spec.head is None else action_function(spec.head)
        size = spec.network.head.sizes[0]
        starts, kind = np.array(spec.starts or 0), np.dtype(spec.choices_dtype)

        def to_action(output: np.ndarray, noise: np.ndarray | None) -> Any:
            if bounded is None:
                return (most_likely(spec.network.head, output[None])[0] + starts).astype(kind)
            return bounded(output[:size].copy(), noise)

        self.to_action = to_action

    def load_vector(self, parameters: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        self.vector[:] = parameters
        self._loaded = False

    def loaded(self) -> None:
        """Have the next `output` read the parameters anew."""
        self._loaded = False

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the observation moments `[D]`."""
        self._moments = {
            "observation_mean": np.array(mean),
            "observation_inverse_std": np.array(inverse_std),
        }
        self._loaded = False

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]`, valid until the next call."""
        if not self._loaded:
            self._inference.load({"parameters": self.vector, **self._moments})
            self._loaded = True
        # As the environments of a training store it: bytes alone are divided by 255.
        stored = np.asarray(observation, self._network.observation_dtype)
        return with_nan_first(self._inference(stored[None])[0][0])

    def act(self, observation: np.ndarray) -> Any:
        """Return the most likely action."""
        return self.to_action(self.output(observation), None)
