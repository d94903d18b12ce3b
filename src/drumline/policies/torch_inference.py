"""The forward pass of a torch network for acting."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from drumline.policies.actor_critic import build_network
from drumline.policies.observations import normalized

if TYPE_CHECKING:
    from drumline.policies.inference import InferenceSpec

LEAST_ROWS = 4  # in fp32 a row's bits are the same in every batch of at least this many (measured)


class TorchInference:
    """A torch network at one version; its weights are cast once per version, not per call."""

    def __init__(self, spec: "InferenceSpec"):
        self._spec = spec
        self._kind = torch.bfloat16 if spec.precision == "bf16" else torch.float32
        self._module: nn.Module = build_network(spec.network).to(self._kind)
        self._images = len(spec.network.observation_shape) == 3
        if self._images:
            self._module = self._module.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self._parameters = list(self._module.parameters())
        self._rows = spec.rows
        self._mean = np.zeros(spec.network.observation_size)
        self._inverse_std = np.ones(spec.network.observation_size)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the published arrays of a version."""
        vector, start = arrays["parameters"], 0
        size = sum(parameter.numel() for parameter in self._parameters)
        if vector.shape != (size,):
            raise ValueError(f"this network has {size} parameters, got {list(vector.shape)}")
        with torch.no_grad():
            for parameter in self._parameters:
                end = start + parameter.numel()
                piece = np.array(vector[start:end]).reshape(parameter.shape)
                parameter.copy_(torch.from_numpy(piece))
                start = end
        if self._spec.network.normalize:
            self._mean = arrays["observation_mean"]
            self._inverse_std = arrays["observation_inverse_std"]

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]`."""
        count = len(observations)
        rows = self._rows or max(count, LEAST_ROWS)
        if not self._rows or count <= rows:
            return self._forward(observations, rows)
        parts = [
            self._forward(observations[start : start + rows], rows)
            for start in range(0, count, rows)
        ]
        outputs, values = zip(*parts, strict=True)
        return np.concatenate(outputs), np.concatenate(values)

    def _forward(self, observations: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        count = len(observations)
        with torch.inference_mode():
            outputs, values = self._module(self._inputs(observations, rows))
            return outputs[:count].float().numpy(), values[:count].float().numpy()

    def _inputs(self, observations: np.ndarray, rows: int) -> Tensor:
        count = len(observations)
        if count < rows:
            padded = np.zeros((rows, *observations.shape[1:]), observations.dtype)
            padded[:count] = observations
            observations = padded
        if self._spec.network.normalize and observations.dtype != np.uint8:
            observations = normalized(observations, self._mean, self._inverse_std)
        given = torch.from_numpy(np.ascontiguousarray(observations))
        if self._images:  # transposed before the cast to a wider dtype: fewer bytes
            given = given.contiguous(memory_format=torch.channels_last)
        inputs = given.to(self._kind)
        return inputs.mul_(1.0 / 255.0) if given.dtype == torch.uint8 else inputs
