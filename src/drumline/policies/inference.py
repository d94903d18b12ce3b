"""Forward passes for acting: batches in, outputs and values out, no gradient."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from drumline.policies.network_spec import NetworkSpec


class Inference(Protocol):
    """A network at one version of its parameters.

    Batch-invariant: a row's output has the same bits in every batch.
    """

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the published arrays of a version, which stay unchanged while it is in use."""
        ...

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]`, float32, valid until the next call."""
        ...


@dataclass(frozen=True)
class InferenceSpec:
    """Description of a forward pass; a process that acts calls it to build one."""

    network: NetworkSpec
    precision: Literal["fp32", "bf16"] = "fp32"
    rows: int = 0
    """0: any number of rows from 4 on; otherwise every call is padded to exactly this many."""
    device: str = "cpu"
    """Device of a torch network's parameters; an mlp acts on the host everywhere, without torch."""

    def __call__(self) -> Inference:
        """Build the forward pass; torch is imported only if the network needs it."""
        if self.network.is_mlp:
            from drumline.policies.mlp_actor_critic import MLPInference

            return MLPInference(self.network)
        from drumline.policies.torch_inference import DeviceInference, TorchInference

        if self.device != "cpu":
            return DeviceInference(self)
        return TorchInference(self)
