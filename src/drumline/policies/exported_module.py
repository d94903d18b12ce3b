"""A policy as one `torch.nn.Module`: observations of the environment in, its actions out."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from drumline.policies.actor_critic import build_network
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.convolutional import NETWORKS, ConvolutionalPolicy
from drumline.policies.heads import Head
from drumline.policies.mlp import OBSERVATION_CLIP as SEARCH_CLIP
from drumline.policies.mlp import layer_shapes
from drumline.policies.observations import OBSERVATION_CLIP
from drumline.policies.spec import PolicySpec
from drumline.policies.torch_module import build_module
from drumline.policies.virtual_batch_mlp import VirtualBatchMLP, folded_spec

Moments = tuple[np.ndarray, np.ndarray] | None
"""Mean and 1/std of observations, `[D]` each."""


def torch_policy(
    spec: "PolicySpec | ActorCriticSpec",
    parameters: np.ndarray,
    moments: Moments,
    reference: np.ndarray | None = None,
) -> "PolicyModule":
    """Return the policy as a module with these parameters `[P]`; it takes no part in training.

    `reference`: the frames of virtual batch normalisation, which is folded into the weights.
    """
    if isinstance(spec, PolicySpec) and spec.convolutions:
        network = _convolutional(spec, parameters, reference)
        return PolicyModule(_Bytes(spec.image), network, _actions(spec.head)).eval()
    if isinstance(spec, PolicySpec) and spec.virtual_batch and spec.module is None:
        normalized = VirtualBatchMLP(spec)
        normalized.load_vector(parameters)
        if reference is not None:
            normalized.load_reference(reference)
        if moments is not None:
            normalized.load_moments(*moments)
        spec, parameters = folded_spec(spec), normalized.folded()
    if isinstance(spec, ActorCriticSpec):
        network = spec.network
        images = network.observation_dtype == "|u1"
        inner: nn.Module = _Outputs(build_network(network))
        shape, clip = network.observation_shape, OBSERVATION_CLIP
        scale = 1.0 / 255.0 if images else 1.0
        normalize = network.normalize and not images
        actions = _actions(spec.head, spec)
    else:
        shape = (spec.observation_size,)
        scale = spec.observation_scale if spec.module is None else 1.0  # a module scales its own
        inner = build_module(spec) if spec.module is not None else _mlp(spec)
        clip, normalize = SEARCH_CLIP, spec.normalize
        actions = _actions(spec.head)
    if isinstance(spec, PolicySpec) and spec.module is None:
        _load_mlp(inner, spec, parameters)
    else:
        _load(inner, parameters)
    before = _Prepared(shape, scale, moments if normalize else None, clip)
    return PolicyModule(before, inner, actions).eval()


class PolicyModule(nn.Module):
    """Most likely actions `[N, …]` for observations `[N, …]`, in any batch.

    `outputs` are the network's raw outputs `[N, O]`: logits, or means and then log-stds.
    """

    def __init__(self, prepared: nn.Module, network: nn.Module, actions: nn.Module):
        super().__init__()
        self.prepared = prepared
        self.network = network
        self.actions = actions
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def outputs(self, observations: Tensor) -> Tensor:
        """Return raw outputs `[N, O]`."""
        return self.network(self.prepared(observations))

    def forward(self, observations: Tensor) -> Tensor:
        """Return actions of the environment `[N, …]`."""
        return self.actions(self.outputs(observations))


class _Prepared(nn.Module):
    """Observations in the form that the network takes: float32, flat or images, normalised."""

    mean: Tensor
    inverse_std: Tensor

    def __init__(self, shape: tuple[int, ...], scale: float, moments: Moments, clip: float):
        super().__init__()
        self._shape = shape
        self._scale = scale
        self._clip = clip
        self._normalizes = moments is not None
        mean, inverse_std = moments or (np.zeros(0), np.zeros(0))
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("inverse_std", torch.tensor(inverse_std, dtype=torch.float64))

    def forward(self, observations: Tensor) -> Tensor:
        """Return float32 `[N, *shape]`."""
        if self._normalizes:
            rows = observations.reshape(-1, math.prod(self._shape)).double()
            rows = ((rows - self.mean) * self.inverse_std).clamp(-self._clip, self._clip)
            return rows.float().reshape(-1, *self._shape)
        return observations.float().reshape(-1, *self._shape) * self._scale


class _Bytes(nn.Module):
    """Images of bytes as float32."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self._shape = shape

    def forward(self, observations: Tensor) -> Tensor:
        """Return float32 `[N, C, H, W]`, 0 to 255."""
        return observations.float().reshape(-1, *self._shape)


class _RowsFirst(nn.Module):
    """Features ordered by row, column and channel."""

    def forward(self, images: Tensor) -> Tensor:
        """Return `[N, H · W · C]`."""
        return images.permute(0, 2, 3, 1).flatten(1)


class _Outputs(nn.Module):
    """An actor-critic network without its value."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, observations: Tensor) -> Tensor:
        """Return outputs `[N, O]`."""
        return self.network(observations)[0]


def _mlp(spec: PolicySpec) -> nn.Sequential:
    sizes = (spec.observation_size, *spec.hidden, spec.head.output_size)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        activation = nn.ReLU() if spec.activation == "relu" else nn.Tanh()
        layers += [nn.Linear(inputs, outputs, bias=spec.bias), activation]
    return nn.Sequential(*layers[:-1])


def _convolutional(
    spec: PolicySpec, parameters: np.ndarray, reference: np.ndarray | None
) -> nn.Sequential:
    policy = ConvolutionalPolicy(spec)
    if reference is not None:
        policy.load_reference(reference)
    policy.load_vector(parameters)
    convolutions = NETWORKS[spec.convolutions].convolutions
    channels = spec.image[0]
    parts: list[nn.Module] = []
    for number, layer in enumerate(policy.layers()):
        weights, bias = torch.from_numpy(layer.weights), torch.from_numpy(layer.bias)
        if number < len(convolutions):
            outputs, kernel, stride = convolutions[number]
            module: nn.Module = nn.Conv2d(channels, outputs, kernel, stride)
            weights = weights.reshape(kernel, kernel, channels, outputs).permute(3, 2, 0, 1)
            channels = outputs
        else:
            if number == len(convolutions):
                parts.append(_RowsFirst())
            module = nn.Linear(weights.shape[0], weights.shape[1])
            weights = weights.T
        with torch.no_grad():
            module.get_parameter("weight").copy_(weights)
            module.get_parameter("bias").copy_(bias)
        parts += [module, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def _load_mlp(network: nn.Module, spec: PolicySpec, parameters: np.ndarray) -> None:
    """Write a NumPy MLP's parameters, whose matrices are `[inputs + 1, outputs]`, into torch's."""
    start = 0
    linear = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    for (rows, columns), layer in zip(layer_shapes(spec), linear, strict=True):
        matrix = np.array(parameters[start : start + rows * columns]).reshape(rows, columns)
        start += rows * columns
        with torch.no_grad():
            weight = matrix[:-1] if spec.bias else matrix
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight.T)))
            if spec.bias:
                layer.bias.copy_(torch.from_numpy(matrix[-1].copy()))


def _load(network: nn.Module, parameters: np.ndarray) -> None:
    start = 0
    for parameter in network.parameters():
        piece = np.array(parameters[start : start + parameter.numel()], np.float32)
        start += parameter.numel()
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(piece).reshape(parameter.shape))


def _actions(head: Head | None, spec: ActorCriticSpec | None = None) -> nn.Module:
    if head is None:
        assert spec is not None, "only an actor-critic network has several choices"
        return _SeveralChoices(spec.network.head.sizes, spec.starts, spec.choices_dtype)
    if head.kind == "discrete":
        return _Choice(head.start)
    return _Bins(head) if head.kind == "bins" else _Bounded(head)


class _Choice(nn.Module):
    def __init__(self, start: int):
        super().__init__()
        self._start = start

    def forward(self, outputs: Tensor) -> Tensor:
        """Return `[N]` int64."""
        return outputs.argmax(dim=1) + self._start


class _SeveralChoices(nn.Module):
    starts: Tensor

    def __init__(self, sizes: tuple[int, ...], starts: tuple[int, ...], dtype: str):
        super().__init__()
        self._sizes = list(sizes)
        self._kind: torch.dtype = getattr(torch, np.dtype(dtype).name, torch.int64)
        self.register_buffer("starts", torch.tensor(starts or (0,) * len(sizes)))

    def forward(self, outputs: Tensor) -> Tensor:
        """Return `[N, choices]` in the space's dtype; int64 where torch lacks it."""
        parts = outputs.split(self._sizes, dim=1)
        chosen = torch.stack([part.argmax(dim=1) for part in parts], dim=1) + self.starts
        return chosen.to(self._kind)


class _Formed(nn.Module):
    """Actions in the space's dtype and shape, within its bounds: float32(0.1) is more than 0.1."""

    low: Tensor
    high: Tensor

    def __init__(self, head: Head):
        super().__init__()
        self._shape = head.shape
        with np.errstate(over="ignore"):
            bounds = [np.array(each, np.dtype(head.dtype)) for each in (head.low, head.high)]
        for name, each in zip(("low", "high"), bounds, strict=True):
            self.register_buffer(name, torch.from_numpy(each))

    def forward(self, actions: Tensor) -> Tensor:
        """Return `[N, *shape]` for `[N, A]`."""
        cast = actions.to(self.low.dtype)
        bounded = torch.minimum(torch.maximum(cast, self.low), self.high)
        return bounded.reshape(-1, *self._shape)


class _Bins(nn.Module):
    """The place of the largest output of each component, scaled to its bounds."""

    values: Tensor

    def __init__(self, head: Head):
        super().__init__()
        low, high = np.array(head.low, np.float32), np.array(head.high, np.float32)
        places = np.array(head.bins, np.float32)
        values = low[:, None] + (places + 1.0) * 0.5 * (high - low)[:, None]
        self.formed = _Formed(head)
        self.register_buffer("values", torch.from_numpy(np.minimum(values, high[:, None])))

    def forward(self, outputs: Tensor) -> Tensor:
        """Return `[N, *shape]`."""
        components, bins = self.values.shape
        chosen = outputs.reshape(-1, components, bins).argmax(dim=2, keepdim=True)
        values = self.values.unsqueeze(0).expand(outputs.shape[0], components, bins)
        return self.formed(values.gather(2, chosen)[:, :, 0])


class _Bounded(nn.Module):
    """Outputs clipped to the bounds, or their tanh scaled to them."""

    low: Tensor
    high: Tensor

    def __init__(self, head: Head):
        super().__init__()
        with np.errstate(over="ignore"):
            low, high = np.array(head.low, np.float32), np.array(head.high, np.float32)
        self._squashed = head.kind != "continuous"
        self._size = len(low)
        self.formed = _Formed(head)
        self.register_buffer("low", torch.from_numpy(low))
        self.register_buffer("high", torch.from_numpy(high))

    def forward(self, outputs: Tensor) -> Tensor:
        """Return `[N, *shape]`."""
        actions = outputs[:, : self._size]
        if self._squashed:
            half, center = (self.high - self.low) * 0.5, (self.low + self.high) * 0.5
            actions = torch.tanh(actions) * half + center
        actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        return self.formed(actions)
