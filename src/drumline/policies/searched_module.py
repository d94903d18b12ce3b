"""A torch module of the user's own whose parameters a search sets from one flat vector."""

import importlib
import re
from bisect import bisect_right
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch

from drumline import seeding
from drumline.errors import ObjectiveProblem
from drumline.functional.perturbation import Pieces, pieces_of
from drumline.functional.torch_threads import limit_torch, torch_settings_kept
from drumline.policies.own_modules import shared_storage

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
_SAMPLED = 4096
_NAMED = 5
"""Names of parameters that a message lists."""


class SearchedModule:
    """A module made under a seed; its parameters that require gradients are searched, by name.

    Vectors are written into the module's own tensors, in the order of `named_parameters`. Buffers
    are put back to their first values, and frozen parameters stay as the class made them, except
    that float32 becomes bfloat16 with that precision. There is one copy of the parameters, in
    `precision`; a search keeps its own in float32.
    """

    def __init__(self, path: str, seed: int, *, precision: str = "fp32", trainable: str = ""):
        """`trainable`: a regular expression; names without a match are frozen."""
        limit_torch(1)
        with seeding.kept_globals():
            make = _class_of(path)  # importing it may seed or draw, the first time in a process
            seeding.seed_globals(seed)
            self._module = _made(path, make)
        self._parameters = _searched(path, self._module, trainable)
        if precision != "fp32":
            _convert(self._module, PRECISIONS[precision])
        for parameter in self._parameters.values():
            parameter.requires_grad_(False)  # no graph is recorded in a call
            parameter.data = parameter.data.contiguous()
        self._kept = [
            _Kept(
                owner,
                name,
                parameter,
                parameter.data,
                None if self._searches(parameter) else _sampled(parameter),
            )
            for owner in self._module.modules()
            for name, parameter in owner.named_parameters(recurse=False)
        ]
        ends = accumulate(parameter.numel() for parameter in self._parameters.values())
        self._ends = list(ends)
        self._buffers = [
            (owner, [(n, b, None if b is None else b.clone()) for n, b in owner._buffers.items()])
            for owner in self._module.modules()
        ]
        """Each submodule's buffers and copies of them; a buffer may be None, until it is used."""

    def _searches(self, parameter: torch.Tensor) -> bool:
        return any(parameter is searched for searched in self._parameters.values())

    @property
    def parameter_count(self) -> int:
        """Return the number of searched parameters P."""
        return sum(parameter.numel() for parameter in self._parameters.values())

    @property
    def module(self) -> torch.nn.Module:
        """Return the module, with the vector that was written last."""
        return self._module

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Return the searched parameters themselves by name, in the order of the vector."""
        return dict(self._parameters)

    def vector(self) -> np.ndarray:
        """Return a copy of the searched parameters `[P]` in float32."""
        parts = [p.detach().float().numpy().ravel() for p in self._parameters.values()]
        return np.concatenate(parts)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the searched parameters by name, in the order of the vector."""
        return {name: tuple(p.shape) for name, p in self._parameters.items()}

    def with_parameters(self, vector: np.ndarray) -> torch.nn.Module:
        """Write a vector `[P]` into the module's tensors; return the module, in `eval` mode."""
        count = self.parameter_count
        if vector.shape != (count,):
            raise ObjectiveProblem(
                f"the module has {count} parameters to search, and the vector is of {vector.shape}"
            )
        return self.with_pieces(pieces_of(vector))

    def restore_buffers(self) -> None:
        """Put the buffers back to their first values; new ones go."""
        with torch.no_grad():
            for owner, buffers in self._buffers:
                there = owner._buffers
                for name in set(there) - {name for name, _, _ in buffers}:
                    del there[name]
                for name, buffer, first in buffers:
                    if buffer is not None and first is not None:
                        buffer.copy_(first)
                    if name not in there:
                        there[name] = buffer
                    elif there[name] is not buffer:
                        setattr(owner, name, buffer)

    def _restore_parameters(self) -> None:
        """Put back parameters that a call replaced; ObjectiveProblem if it changed frozen ones."""
        for kept in self._kept:
            if getattr(kept.owner, kept.name, None) is not kept.parameter:
                setattr(kept.owner, kept.name, kept.parameter)
            parameter = kept.parameter
            parameter.data = kept.data  # another precision or order of the memory goes
            parameter.requires_grad_(False)
            parameter.grad = None
            if kept.sample is not None and not torch.equal(_sampled(parameter), kept.sample):
                raise ObjectiveProblem(
                    f"the objective changes the module's parameter {kept.name!r}, which is not "
                    "searched and stays as the class makes it: register it as a buffer, whose "
                    "first values are put back before every call"
                )

    def with_pieces(self, pieces: Pieces) -> torch.nn.Module:
        """Write a vector that comes in pieces into the module's tensors; return the module."""
        self._module.eval()
        self.restore_buffers()
        self._restore_parameters()
        tensors = [parameter.data.view(-1) for parameter in self._parameters.values()]
        with torch.no_grad():
            for start, piece in pieces:
                values, end = torch.from_numpy(piece), start + piece.size
                number = bisect_right(self._ends, start)
                while start < end:
                    begin = self._ends[number] - tensors[number].numel()
                    stop = min(end, self._ends[number])
                    part = values[start - end + piece.size : stop - end + piece.size]
                    tensors[number][start - begin : stop - begin].copy_(part)
                    start, number = stop, number + 1
        return self._module


class _Kept(NamedTuple):
    """A parameter as the class made it, and its place."""

    owner: torch.nn.Module
    name: str
    parameter: torch.nn.Parameter
    data: torch.Tensor
    """The parameter's memory."""
    sample: torch.Tensor | None
    """Bytes of some of a frozen parameter's numbers; None: it is searched."""


def _sampled(parameter: torch.Tensor) -> torch.Tensor:
    """Return bytes of some numbers, evenly spread: a copy of all would double a large module."""
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLED)].clone().view(torch.uint8)


def _convert(module: torch.nn.Module, precision: torch.dtype) -> None:
    """Give float32 parameters and buffers another precision; others keep their type."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dtype == torch.float32:
                parameter.data = parameter.data.to(precision)
        for owner in module.modules():
            for name, buffer in owner.named_buffers(recurse=False):
                if buffer.dtype == torch.float32:
                    setattr(owner, name, buffer.to(precision))


@torch_settings_kept()
def _class_of(path: str) -> Any:
    module_name, _, name = path.partition(":")
    if "/" in module_name or module_name.startswith("."):
        _refuse(path, "is a path of a file: write package.module:Class, without / and .py")
    try:
        make: Any = importlib.import_module(module_name)
        for part in name.split("."):
            make = getattr(make, part)
    except (ImportError, AttributeError, ValueError) as error:
        _refuse(path, f"cannot be imported ({error}): write package.module:Class")
    return make


def _made(path: str, make: Any) -> torch.nn.Module:
    try:
        module = make()
    except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
        text = " ".join(f"{type(error).__name__}: {error}".split())
        _refuse(path, f"cannot be made without arguments, as an objective's module is: {text}")
    if not isinstance(module, torch.nn.Module):
        _refuse(path, f"made a {type(module).__name__}, not a torch.nn.Module")
    return module


def _searched(path: str, module: torch.nn.Module, trainable: str) -> dict[str, torch.nn.Parameter]:
    """Return the searched parameters by name; ObjectiveProblem for any that no search can set."""
    named = dict(module.named_parameters(remove_duplicate=False))
    if not named:
        _refuse(path, "has no parameters, so there is nothing to search")
    frozen = {name for name in named if not re.search(trainable, name)}
    if len(frozen) == len(named):
        more = ", …" if len(named) > _NAMED else ""
        names = ", ".join(list(named)[:_NAMED]) + more
        _refuse(path, f"has no parameter whose name matches --trainable {trainable!r}: {names}")
    for name in frozen:
        named[name].requires_grad_(False)
    for name, parameter in named.items():
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            _refuse(path, f"has a parameter {name!r} without a shape: call it once in __init__")
        if parameter.device.type != "cpu":
            _refuse(path, f"has its parameter {name!r} on {parameter.device}: leave it on the CPU")
        if name not in frozen and not parameter.dtype.is_floating_point:
            kind = str(parameter.dtype).removeprefix("torch.")
            _refuse(
                path,
                f"has a parameter {name!r} of {kind}, to which no noise can be added: make it a "
                "buffer (register_buffer), or leave it out of --trainable",
            )
        if parameter.requires_grad and parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            _refuse(path, f"has a parameter {name!r} of {kind}: searched parameters are float32")
    # Frozen parameters may share: nothing is written into them.
    fixed = {p.untyped_storage().data_ptr() for name, p in named.items() if name in frozen}
    written = {p.untyped_storage().data_ptr() for name, p in named.items() if name not in frozen}
    own = fixed - written
    checked = {n: p for n, p in named.items() if p.untyped_storage().data_ptr() not in own}
    if fault := shared_storage(checked):
        _refuse(path, fault)
    searched = {name: p for name, p in named.items() if p.requires_grad}
    if not sum(parameter.numel() for parameter in searched.values()):
        _refuse(path, "has no parameters that require gradients, so there is nothing to search")
    return searched


def _refuse(path: str, reason: str) -> NoReturn:
    raise ObjectiveProblem(f"--policy {path!r} {reason}")
