"""The forward pass of a torch network for acting."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from drumline.functional.recorded_work import RecordedWork, finish, host_buffer
from drumline.functional.torch_devices import device_of, host_array
from drumline.policies.actor_critic import build_network, takes_channels_last
from drumline.policies.network_spec import is_own
from drumline.policies.observations import normalized
from drumline.policies.vector import FlatParameters

if TYPE_CHECKING:
    from drumline.policies.inference import InferenceSpec
    from drumline.policies.network_spec import NetworkSpec

LEAST_ROWS = 4  # in fp32 a row's bits are the same in every batch of at least this many (measured)


class DeviceInference:
    """A torch network at one version on a device; every call has the same number of rows there.

    Kernels are chosen by the number of rows, so the bits of a row would depend on its batch.
    """

    def __init__(self, spec: "InferenceSpec"):
        device = device_of(spec.device)
        assert device is not None, "the host has a forward pass of its own"
        self._spec = spec
        self._device = device
        self._flat = FlatParameters(build_network(spec.network), device=device)
        self._scaling = Scaling(spec.network)
        self._own = is_own(spec.network.network)
        """Whether the network is the user's, which may do what no recording repeats."""
        self._fixed: _FixedRows | None = None

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the published arrays of a version."""
        self._flat.load(arrays["parameters"])
        self._scaling.load(arrays)

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]`."""
        return in_parts(observations, self._spec.rows, self._forward)

    def _forward(self, observations: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        count = len(observations)
        if self._spec.rows and not self._own:
            given = self._scaling.rows(observations, count)
            if self._fixed is None:
                self._fixed = _FixedRows(self._flat.module, self._device, rows, given)
            return self._fixed(given)
        given = torch.from_numpy(self._scaling.rows(observations, rows)).to(self._device)
        inputs = _scaled_bytes(given)
        if self._own and inputs is given:
            inputs = inputs.clone()  # it may write into its input
        with torch.inference_mode():
            outputs, values = self._flat.module(inputs)
            return host_array(outputs[:count]), host_array(values[:count])


class _FixedRows:
    """A module's forward pass on batches of one size, recorded from copy to copy."""

    def __init__(self, module: nn.Module, device: torch.device, rows: int, like: np.ndarray):
        """`like`: observations of the kind that it will be given."""
        self._module = module
        self._device = device
        shape, kind = (rows, *like.shape[1:]), torch.from_numpy(like).dtype
        self._staged = host_buffer(shape, kind, device)
        self._rows = self._staged.numpy()
        self._given = torch.empty(shape, dtype=kind, device=device)
        with torch.no_grad():
            like_results = module(_scaled_bytes(self._given.zero_()))
        self._results = [host_buffer(tuple(r.shape), r.dtype, device) for r in like_results]
        self._work = RecordedWork(device, self._pass)

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs and values of at most as many rows.

        The other rows are those of calls before: no row depends on another (`invariance`).
        """
        count = len(observations)
        self._rows[:count] = observations
        self._work()
        finish(self._device)
        outputs, values = (result[:count].numpy().copy() for result in self._results)
        return outputs, values

    @torch.no_grad()
    def _pass(self) -> None:
        self._given.copy_(self._staged, non_blocking=True)
        for result, found in zip(
            self._results, self._module(_scaled_bytes(self._given)), strict=True
        ):
            result.copy_(found, non_blocking=True)


def _scaled_bytes(given: Tensor) -> Tensor:
    """Return observations in float32; bytes are divided by 255."""
    inputs = given.to(torch.float32)
    return inputs.mul_(1.0 / 255.0) if given.dtype == torch.uint8 else inputs


class TorchInference:
    """A torch network at one version; its weights are cast once per version, not per call."""

    def __init__(self, spec: "InferenceSpec"):
        self._spec = spec
        self._kind = torch.bfloat16 if spec.precision == "bf16" else torch.float32
        self._module: nn.Module = build_network(spec.network)
        self._own = is_own(spec.network.network)
        """Whether the network is the user's, which may write into its input."""
        self._images = takes_channels_last(self._module, spec.network)
        self._module = self._module.to(self._kind)
        log_std: object = getattr(self._module, "log_std", None)
        if isinstance(log_std, nn.Parameter) and not self._own:
            log_std.data = log_std.data.float()  # as in the learner's pass under autocast
        if self._images:
            self._module = self._module.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self._parameters = list(self._module.parameters())
        self._scaling = Scaling(spec.network)

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
        self._scaling.load(arrays)

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]`."""
        return in_parts(observations, self._spec.rows, self._forward)

    def _forward(self, observations: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        count = len(observations)
        with torch.inference_mode(), self._autocast():
            outputs, values = self._module(self._inputs(observations, rows))
            return outputs[:count].float().numpy(), values[:count].float().numpy()

    def _autocast(self) -> AbstractContextManager[object]:
        """Cast what is no parameter, too: a user's module may have constants in float32."""
        if self._own and self._kind == torch.bfloat16:
            return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)
        return nullcontext()

    def _inputs(self, observations: np.ndarray, rows: int) -> Tensor:
        given = torch.from_numpy(self._scaling.rows(observations, rows))
        if self._images:  # transposed before the cast to a wider dtype: fewer bytes
            given = given.contiguous(memory_format=torch.channels_last)
        inputs = given.to(self._kind)
        if given.dtype == torch.uint8:
            return inputs.mul_(1.0 / 255.0)
        return inputs.clone() if self._own else inputs


class Scaling:
    """Observations as a network takes them: padded to a number of rows, and normalised."""

    def __init__(self, network: "NetworkSpec"):
        self._normalize = network.normalize
        self._mean = np.zeros(network.observation_size)
        self._inverse_std = np.ones(network.observation_size)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the published moments of a version."""
        if self._normalize:
            self._mean = arrays["observation_mean"]
            self._inverse_std = arrays["observation_inverse_std"]

    def rows(self, observations: np.ndarray, rows: int) -> np.ndarray:
        """Return the observations and rows of zeros, `rows` in all."""
        count = len(observations)
        if count < rows:
            padded = np.zeros((rows, *observations.shape[1:]), observations.dtype)
            padded[:count] = observations
            observations = padded
        if self._normalize and observations.dtype != np.uint8:
            observations = normalized(observations, self._mean, self._inverse_std)
        return np.ascontiguousarray(observations)


def in_parts(
    observations: np.ndarray,
    rows: int,
    forward: Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs and values of all rows, `rows` of them at once; 0: all of them."""
    count = len(observations)
    at_once = rows or max(count, LEAST_ROWS)
    if not rows or count <= at_once:
        return forward(observations, at_once)
    parts = [forward(observations[start : start + rows], rows) for start in range(0, count, rows)]
    outputs, values = zip(*parts, strict=True)
    return np.concatenate(outputs), np.concatenate(values)
