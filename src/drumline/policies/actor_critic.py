"""Actor-critic networks in torch: observations in, action outputs and values out."""

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from drumline import seeding
from drumline.errors import raised
from drumline.functional.torch_threads import one_torch_thread, torch_settings_kept
from drumline.policies.initial_layers import orthogonal
from drumline.policies.network_spec import NetworkSpec, is_own
from drumline.policies.own_modules import (
    refuse_draws,
    refuse_frozen,
    refuse_memory,
    refuse_unusable,
    seeded_constants,
    warn_of_dropout,
)

Gain = float


@one_torch_thread()
def build_network(spec: NetworkSpec) -> nn.Module:
    """Return the network with uninitialised parameters."""
    builder = _BUILDERS.get(spec.network)
    if builder is not None:
        return builder(spec)
    if not is_own(spec.network):
        raise ValueError(
            f"--network {spec.network!r} is none of {', '.join(_BUILDERS)} and no "
            "package.module:Class"
        )
    make = _class_of(spec)  # importing it may seed or draw, the first time in a process
    with seeded_constants():
        return _from_user(spec, make)


def takes_channels_last(network: nn.Module, spec: NetworkSpec) -> bool:
    """Return whether a network on images can have them in channels-last memory, which is faster.

    A user's may ask for another order, as `view` after a convolution does: it is tried.
    """
    if len(spec.observation_shape) != 3:
        return False
    if is_own(spec.network):
        zeros = torch.zeros(2, *spec.observation_shape)
        try:
            with torch.no_grad():
                network(zeros.contiguous(memory_format=torch.channels_last))
        except Exception:  # noqa: BLE001 - the user's own code may raise anything
            return False
    return True


@one_torch_thread()
def initial_parameters(spec: NetworkSpec, seed: int) -> np.ndarray:
    """Return the initial parameter vector `[P]`: a function of the spec and the seed alone.

    Orthogonal weights (Saxe et al. 2014) with gain √2 in hidden layers, 0.01 for the action and 1
    for the value; biases and log stds 0. A user's module keeps the values of its own constructor.
    """
    make = _class_of(spec) if is_own(spec.network) else None
    with seeding.kept_globals():
        seeding.seed_globals(seeding.seeds(seed, 1, "network")[0])
        network = build_network(spec) if make is None else _from_user(spec, make)
    if spec.network in _BUILDERS:
        with threadpool_limits(1, "blas"):  # on busy cores, two threads took 20 × as long
            _initialize(network, seed)
    return np.concatenate([p.detach().numpy().ravel() for p in network.parameters()])


def _initialize(network: nn.Module, seed: int) -> None:
    for name, parameter in network.named_parameters():
        rng = seeding.generator(seed, "initial-parameters", name)
        with torch.no_grad():
            if parameter.ndim > 1:
                gain = getattr(network, "gains", {}).get(name, math.sqrt(2.0))
                weight = orthogonal(rng, parameter.shape[0], parameter[0].numel())
                parameter.copy_(torch.from_numpy(weight * gain).reshape(parameter.shape))
            else:
                parameter.zero_()


class MLP(nn.Module):
    """Two tanh trunks: the network of `mlp_actor_critic`, with gradients."""

    def __init__(self, spec: NetworkSpec):
        super().__init__()
        self._gaussian = spec.head.kind == "gaussian"
        self._observation_size = spec.observation_size
        outputs = spec.head.sizes[0] if self._gaussian else spec.head.output_size
        self.policy = _tanh_trunk((spec.observation_size, *spec.hidden, outputs))
        self.value = _tanh_trunk((spec.observation_size, *spec.hidden, 1))
        if self._gaussian:
            self.log_std = nn.Parameter(torch.zeros(outputs))
        last = 2 * len(spec.hidden)
        self.gains = {f"policy.{last}.weight": 0.01, f"value.{last}.weight": 1.0}

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs `[N, O]` and values `[N]` of float observations."""
        # Also observations without an axis; `len` would fix the batch of an exported network.
        rows = observations.reshape(-1, self._observation_size)
        outputs = self.policy(rows)
        if self._gaussian:
            outputs = torch.cat([outputs, self.log_std.expand_as(outputs)], dim=1)
        return outputs, self.value(rows)[:, 0]


def _tanh_trunk(sizes: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class SharedTrunk(nn.Module):
    """Images through one convolutional trunk; linear heads for actions and value."""

    def __init__(self, spec: NetworkSpec, trunk: nn.Module, features: int, policy_gain: Gain):
        super().__init__()
        self._gaussian = spec.head.kind == "gaussian"
        outputs = spec.head.sizes[0] if self._gaussian else spec.head.output_size
        if self._gaussian:
            self.log_std = nn.Parameter(torch.zeros(outputs))
        self.trunk = trunk
        self._channels_last = spec.channels_last
        self.policy = nn.Linear(features, outputs)
        self.value = nn.Linear(features, 1)
        self.gains = {"policy.weight": policy_gain, "value.weight": 1.0}

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs `[N, O]` and values `[N]` of images, the axes of `observation_shape`."""
        if self._channels_last:
            observations = observations.permute(0, 3, 1, 2)
        features = self.trunk(observations)
        outputs = self.policy(features)
        if self._gaussian:
            outputs = torch.cat([outputs, self.log_std.expand_as(outputs)], dim=1)
        return outputs, self.value(features)[:, 0]


def _convolutions(spec: NetworkSpec, layers: tuple[tuple[int, int, int], ...]) -> nn.Module:
    """Return convolutions (channels, kernel, stride) and a 512-unit layer, ReLU throughout."""
    channels, height, width = _image(spec)
    parts: list[nn.Module] = []
    for out, kernel, stride in layers:
        parts += [nn.Conv2d(channels, out, kernel, stride), nn.ReLU()]
        channels = out
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    if height < 1 or width < 1:
        raise ValueError(f"--network {spec.network} needs larger images, got {_image(spec)}")
    parts += [nn.Flatten(), nn.Linear(channels * height * width, 512), nn.ReLU()]
    return nn.Sequential(*parts)


def _image(spec: NetworkSpec) -> tuple[int, int, int]:
    if len(spec.observation_shape) != 3:
        raise ValueError(
            f"--network {spec.network} takes images [C, H, W], "
            f"got observations of shape {list(spec.observation_shape)}; use mlp"
        )
    first, second, third = spec.observation_shape
    return (third, first, second) if spec.channels_last else (first, second, third)


_NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def _nature_cnn(spec: NetworkSpec) -> nn.Module:
    """Mnih et al. 2015."""
    return SharedTrunk(spec, _convolutions(spec, _NATURE), 512, 0.01)


def _football_cnn(spec: NetworkSpec) -> nn.Module:
    """The CNN of HTS-RL's release for 72 × 96 images, with the convolutions of Mnih et al. 2015."""
    return SharedTrunk(spec, _convolutions(spec, _NATURE), 512, 1.0)


class _Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """Add the result of two convolutions to the images."""
        return images + self.second(torch.relu(self.first(torch.relu(images))))


def _impala_resnet(spec: NetworkSpec) -> nn.Module:
    """The deep network of Espeholt et al. 2018 without its LSTM."""
    channels, height, width = _image(spec)
    parts: list[nn.Module] = []
    for out in (16, 32, 32):
        parts += [nn.Conv2d(channels, out, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        parts += [_Residual(out), _Residual(out)]
        channels, height, width = out, (height + 1) // 2, (width + 1) // 2
    parts += [nn.ReLU(), nn.Flatten(), nn.Linear(channels * height * width, 256), nn.ReLU()]
    return SharedTrunk(spec, nn.Sequential(*parts), 256, 0.01)


@contextmanager
def _usable(spec: NetworkSpec) -> Iterator[None]:
    """Turn what the user's own code raises into a ValueError; it may raise anything."""
    try:
        yield
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"--network {spec.network!r} cannot be imported and called with {_given(spec)} "
            f"({raised(error, __file__)}): give package.module:Class; the current directory is "
            "importable"
        ) from error


def _given(spec: NetworkSpec) -> tuple[tuple[int, ...], int]:
    return spec.observation_shape, spec.head.output_size


@torch_settings_kept()
def _class_of(spec: NetworkSpec) -> Callable[..., Any]:
    module, _, name = spec.network.partition(":")
    with seeding.kept_globals(), _usable(spec):
        return getattr(importlib.import_module(module), name)


def _from_user(spec: NetworkSpec, make: Callable[..., Any]) -> nn.Module:
    flag = f"--network {spec.network!r}"
    with _usable(spec):
        made: Any = make(*_given(spec))
    if not isinstance(made, nn.Module) or not any(True for _ in made.parameters()):
        raise ValueError(f"{flag} made a {type(made).__name__}, not a Module with parameters")
    refuse_unusable(made, flag)
    refuse_frozen(made, flag, differentiates=True)
    warn_of_dropout(made, flag)
    made.eval()
    _try(made, 2, "two observations", spec, flag)
    tried = torch.zeros(2, *spec.observation_shape)
    refuse_memory(made, tried, flag)
    refuse_draws(made, tried, flag)
    _try(made, 1, "one observation", spec, flag)
    return made


def _try(made: nn.Module, count: int, words: str, spec: NetworkSpec, flag: str) -> None:
    """Raise ValueError unless the module gives outputs and values of `count` observations."""
    tried = f"{words} of zeros {[count, *spec.observation_shape]}"
    try:
        with torch.no_grad():
            result: Any = made(torch.zeros(count, *spec.observation_shape))
    except Exception as error:  # the user's own code may raise anything
        raise ValueError(f"{flag} fails on {tried}: {_one_line(error)}") from error
    wanted = [[count, spec.head.output_size], [count]]
    shapes = (
        [list(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in result]
        if isinstance(result, tuple)
        else type(result).__name__
    )
    if shapes != wanted:
        raise ValueError(
            f"{flag} must return (outputs [N, {spec.head.output_size}], values [N]); for {words} "
            f"it returned {shapes} instead of {wanted}"
        )
    for what, part in zip(("outputs", "values"), result, strict=True):
        if bad := int((~torch.isfinite(part)).sum()):
            raise ValueError(f"{flag}: {bad} of {part.numel()} {what} are not finite for {tried}")


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


_BUILDERS: dict[str, Callable[[NetworkSpec], nn.Module]] = {
    "mlp": MLP,
    "nature-cnn": _nature_cnn,
    "football-cnn": _football_cnn,
    "impala-resnet": _impala_resnet,
}
