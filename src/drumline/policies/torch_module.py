"""A user's `torch.nn.Module` as a policy: its parameters are views into one flat vector."""

import importlib
from collections.abc import Callable

import numpy as np
import torch

from drumline import seeding
from drumline.functional.torch_threads import limit_torch
from drumline.policies.heads import action_function
from drumline.policies.mlp import OBSERVATION_CLIP
from drumline.policies.spec import PolicySpec


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


def build_module(spec: PolicySpec) -> torch.nn.Module:
    """Call the user's class with (observation size, output size) and check the result."""
    assert spec.module is not None
    inputs, outputs = spec.observation_size, spec.head.output_size
    make = load_object(spec.module)
    try:
        module = make(inputs, outputs)
    except Exception as error:  # the user's own code may raise anything
        raise _refusal(
            spec, f"cannot be made with ({inputs}, {outputs}): {_one_line(error)}"
        ) from error
    if not isinstance(module, torch.nn.Module):
        raise _refusal(spec, f"made a {type(module).__name__}, not a Module")
    module.eval()
    _check_parameters(spec, module)
    try:
        with torch.inference_mode():
            output = module(torch.zeros(1, inputs))
    except Exception as error:  # the user's own code may raise anything
        raise _refusal(
            spec, f"fails on one observation [1, {inputs}]: {_one_line(error)}"
        ) from error
    if not isinstance(output, torch.Tensor) or tuple(output.shape) != (1, outputs):
        got = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise _refusal(
            spec, f"returns {got} for one observation; the action space needs {(1, outputs)}"
        )
    return module


def _check_parameters(spec: PolicySpec, module: torch.nn.Module) -> None:
    parameters = list(module.parameters())
    if not parameters:
        raise _refusal(spec, "has no parameters, so there is nothing to train")
    for parameter in parameters:
        parameter.requires_grad_(False)
        if parameter.dtype != torch.float32:
            raise _refusal(spec, "parameters must be float32")
    if names := [name for name, _ in module.named_buffers()]:
        raise _refusal(
            spec,
            f"has buffers ({', '.join(names)}), as BatchNorm does, which a search over parameters "
            "would neither train nor save: use a layer without them, such as LayerNorm",
        )


def _refusal(spec: PolicySpec, reason: str) -> ValueError:
    return ValueError(f"--policy {spec.module!r} {reason}")


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def initial_vector(spec: PolicySpec, rng: np.random.Generator) -> np.ndarray:
    """Return the module's own initialisation under a torch seed drawn from `rng`."""
    with torch.random.fork_rng(devices=[]):
        seeding.seed_globals(int(rng.integers(2**31)))
        module = build_module(spec)
    return np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])


class TorchPolicy:
    """One torch thread, inference mode, one observation at a time."""

    def __init__(self, spec: PolicySpec):
        limit_torch(1)
        self._module = build_module(spec)
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
            return self._module(self._tensor)[0].numpy().copy()

    def act(self, observation: np.ndarray) -> object:
        """Return the noiseless action."""
        return self.to_action(self.output(observation), None)
