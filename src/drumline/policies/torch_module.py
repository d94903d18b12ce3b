"""A user's `torch.nn.Module` as a policy: its parameters are views into one flat vector."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from drumline import seeding
from drumline.errors import raised
from drumline.functional.torch_threads import limit_torch, one_torch_thread, torch_settings_kept
from drumline.policies.heads import action_function
from drumline.policies.mlp import OBSERVATION_CLIP
from drumline.policies.nan_outputs import with_nan_first
from drumline.policies.own_modules import (
    WITHOUT_MEMORY,
    refuse_draws,
    refuse_frozen,
    refuse_memory,
    refuse_unusable,
    seeded_constants,
    warn_of_dropout,
)
from drumline.policies.spec import PolicySpec


@torch_settings_kept()
def load_object(path: str, flag: str = "--policy") -> Callable[..., object]:
    """Return the object that `package.module:name`, the value of `flag`, names."""
    module_name, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{flag} {path!r} cannot be imported ({error}): give package.module:Class; "
            "the current directory is importable"
        ) from error
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise ValueError(
            f"{flag} {path!r}: importing {module_name} raised {raised(error, __file__)}"
        ) from error


@one_torch_thread()
def build_module(spec: PolicySpec) -> torch.nn.Module:
    """Return the user's module, checked, as one that takes flat observations `[N, D]`.

    Its class is called with (observation size, output size), or with `--network` (observation
    shape, output size). Its parameters are to be loaded; the global generators stay as they are.
    """
    make = _class_of(spec)  # importing it may seed or draw, the first time in a process
    with seeded_constants():
        return _built(spec, make)


def refuse_frozen_parts(spec: PolicySpec, *, searches: bool, differentiates: bool) -> None:
    """Raise ValueError for frozen parameters that a method would move (`refuse_frozen`)."""
    built = build_module(spec)
    module = built.network if isinstance(built, OwnActor) else built
    refuse_frozen(module, _flag(spec), searches=searches, differentiates=differentiates)


def _flag(spec: PolicySpec) -> str:
    return f"--{'network' if spec.module_shape else 'policy'} {spec.module!r}"


def _class_of(spec: PolicySpec) -> Callable[..., object]:
    assert spec.module is not None
    with seeding.kept_globals():
        return load_object(spec.module, _flag(spec).split(" ")[0])


def _built(spec: PolicySpec, make: Callable[..., object]) -> torch.nn.Module:
    flag = _flag(spec)
    given = (spec.module_shape or spec.observation_size, spec.head.output_size)
    try:
        made = make(*given)
    except Exception as error:  # the user's own code may raise anything
        why = raised(error, __file__)
        raise ValueError(f"{flag} cannot be made with {given}: {why}") from error
    if not isinstance(made, torch.nn.Module):
        raise ValueError(f"{flag} made a {type(made).__name__}, not a Module")
    if next(iter(made.parameters()), None) is None:
        raise ValueError(f"{flag} has no parameters, so there is nothing to train")
    refuse_unusable(made, flag)
    warn_of_dropout(made, flag)
    made.eval()
    return _shaped(made, spec, flag) if spec.module_shape else _flat(made, spec, flag)


def _flat(module: torch.nn.Module, spec: PolicySpec, flag: str) -> torch.nn.Module:
    """Return the module; ValueError unless it gives `[1, O]` for one flat observation."""
    inputs, outputs = spec.observation_size, spec.head.output_size
    tried = torch.zeros(1, inputs)
    result = _tried(module, tried, flag, f"one observation [1, {inputs}]")
    if not isinstance(result, torch.Tensor) or tuple(result.shape) != (1, outputs):
        got = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
        memory = f"; {WITHOUT_MEMORY}" if isinstance(result, tuple) else ""
        raise ValueError(
            f"{flag} returns {got} for one observation; the action space needs "
            f"{(1, outputs)}{memory}"
        )
    refuse_memory(module, tried, flag)
    return module


def _shaped(module: torch.nn.Module, spec: PolicySpec, flag: str) -> torch.nn.Module:
    """Return the module for flat observations; ValueError unless it gives outputs `[N, O]`.

    Values `[N]` beside them, which a module for an actor-critic method has, are left unused.
    """
    _refuse_outputs(module, 2, "two observations", spec, flag)
    tried = torch.zeros(2, *spec.module_shape)
    refuse_memory(module, tried, flag)
    refuse_draws(module, tried, flag)
    _refuse_outputs(module, 1, "one observation", spec, flag)
    return OwnActor(module, spec.module_shape, spec.observation_scale)


def _refuse_outputs(
    module: torch.nn.Module, count: int, words: str, spec: PolicySpec, flag: str
) -> None:
    """Raise ValueError unless the module gives outputs of `count` observations."""
    shape, outputs = [count, *spec.module_shape], spec.head.output_size
    result = _tried(module, torch.zeros(shape), flag, f"{words} of zeros {shape}")
    parts = result if isinstance(result, tuple) else (result,)
    got = [
        list(part.shape) if isinstance(part, torch.Tensor) else type(part).__name__
        for part in parts
    ]
    if got not in ([[count, outputs]], [[count, outputs], [count]]):
        raise ValueError(
            f"{flag} must return outputs [N, {outputs}], alone or with values [N]; for {words} "
            f"it returned {got if isinstance(result, tuple) else got[0]}"
        )


def _tried(module: torch.nn.Module, tried: torch.Tensor, flag: str, words: str) -> Any:
    try:
        with torch.no_grad():
            return module(tried)
    except Exception as error:  # the user's own code may raise anything
        raise ValueError(f"{flag} fails on {words}: {_one_line(error)}") from error


class OwnActor(torch.nn.Module):
    """A user's network of `--network` as an actor: flat observations in, outputs out."""

    def __init__(self, network: torch.nn.Module, shape: tuple[int, ...], scale: float):
        super().__init__()
        self.network = network
        self._shape = shape
        self._scale = scale

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Return outputs `[N, O]` of observations `[N, D]`."""
        shaped = observations.reshape(-1, *self._shape)
        result = self.network(shaped * self._scale if self._scale != 1.0 else shaped)
        return result[0] if isinstance(result, tuple) else result


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


@one_torch_thread()
def initial_vector(spec: PolicySpec, rng: np.random.Generator) -> np.ndarray:
    """Return the module's own initialisation under a torch seed drawn from `rng`."""
    make = _class_of(spec)
    with seeding.kept_globals():
        seeding.seed_globals(int(rng.integers(2**31)))
        module = _built(spec, make)
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


def tensor_shapes(spec: PolicySpec) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the module's parameters, in the order of the vector."""
    return tuple(tuple(p.shape) for p in build_module(spec).parameters())


class TorchPolicy:
    """One torch thread, inference mode, one observation at a time."""

    def __init__(self, spec: PolicySpec):
        limit_torch(1)
        self._module = build_module(spec).requires_grad_(False)
        self.parameter_count = sum(p.numel() for p in self._module.parameters())
        self.vector = np.zeros(self.parameter_count, dtype=np.float32)
        flat = torch.from_numpy(self.vector)
        start = 0
        for parameter in self._module.parameters():
            piece = flat[start : start + parameter.numel()]
            parameter.data = piece.view(parameter.shape)
            start += parameter.numel()
        self._normalize = spec.normalize
        self._mean = np.zeros(spec.observation_size)
        self._inverse_std = np.ones(spec.observation_size)
        self._input = np.zeros((1, spec.observation_size), dtype=np.float32)
        self._tensor = torch.from_numpy(self._input)
        self.to_action = action_function(spec.head)

    def load_vector(self, parameters: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        self.vector[:] = parameters

    def loaded(self) -> None:
        """Do nothing: `output` reads the parameters in place."""

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the observation moments `[D]` of a version."""
        self._mean[:] = mean
        self._inverse_std[:] = inverse_std

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]`, valid until the next call."""
        row = observation.reshape(-1)
        if self._normalize:
            normalized = (row - self._mean) * self._inverse_std
            self._input[0] = np.clip(normalized, -OBSERVATION_CLIP, OBSERVATION_CLIP)
        else:
            self._input[0] = row
        with torch.inference_mode():
            return with_nan_first(self._module(self._tensor)[0].numpy().copy())

    def act(self, observation: np.ndarray) -> object:
        """Return the noiseless action."""
        return self.to_action(self.output(observation), None)
