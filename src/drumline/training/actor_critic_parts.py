"""Parts of an actor-critic run derived from its config: environments, network, storages."""

import dataclasses
from typing import Any

from drumline.buffers.rollout import RolloutShape
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.renewals import Restore
from drumline.functional.shards import Shards
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.first_policy import FirstPolicy
from drumline.policies.heads import Head
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec


@dataclasses.dataclass(frozen=True)
class ActorCriticParts:
    """Environments, network and storages of a config, whatever the layout."""

    config: Any
    lanes: LanesSpec
    renewed: bool
    """Whether the engine needs renewals to be restored exactly."""
    shape: RolloutShape
    network: NetworkSpec
    policy_head: Head | None
    starts: tuple[int, ...]
    choices_dtype: str
    restore: Restore | None = None
    """Longest restore of EnvPool's environments."""
    endless: bool = False
    """Whether no time limit bounds the episodes of Gymnasium's environments."""
    shards: Shards | None = None
    """Shards that this process learns from; None: all."""
    first: FirstPolicy | None = None
    """Trained policy to start from; None: parameters are drawn."""

    def inference(self) -> InferenceSpec:
        """Return the settings of the forward pass of an executor, an actor or the driver."""
        rows = max(0, self.config.inference_rows)  # not resolved: MLPs keep their bits in any batch
        return InferenceSpec(self.network, self.config.precision, rows, self.acting_device)

    @property
    def acting_device(self) -> str:
        """Return the device of forward passes for acting: an mlp acts on the host everywhere."""
        # A method from outside need not have the field.
        device: str = getattr(self.config, "device", "cpu")
        return "cpu" if self.network.is_mlp else device

    def actors(self, asked: int) -> int:
        """Return the number of actors: executors have no device, so one has an actor at least."""
        return asked or (0 if self.acting_device == "cpu" else 1)

    def policy(self, parameter_count: int) -> ActorCriticSpec:
        """Return the description of the policy in a policy file."""
        return ActorCriticSpec(
            self.network, self.policy_head, parameter_count, self.starts, self.choices_dtype
        )
