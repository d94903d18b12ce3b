"""Checks of a user's `torch.nn.Module`, the same for every flag that names one."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from drumline import seeding

_LOGGER = logging.getLogger("drumline")

WITHOUT_MEMORY = (
    "a policy here sees one observation and keeps nothing between steps: take layers without "
    "memory, and let the environment stack its frames (gymnasium.wrappers.FrameStackObservation)"
)


@contextmanager
def seeded_constants() -> Iterator[None]:
    """Draw a module's constants, such as random features, alike in every process.

    They are in no policy file: a class draws them again wherever it is called.
    """
    with seeding.kept_globals():
        seeding.seed_globals(0)
        yield


def move_constants(module: nn.Module, device: torch.device) -> None:
    """Move tensors that are plain attributes of a module, which no vector of parameters has."""
    for owner in module.modules():
        for name, value in list(vars(owner).items()):
            if isinstance(value, Tensor):
                setattr(owner, name, value.to(device))


def refuse_unusable(module: nn.Module, flag: str) -> None:
    """Raise ValueError for a module that no search or gradient could train, with `flag` in it."""
    for name, part in module.named_modules():
        if isinstance(part, (nn.RNNBase, nn.RNNCellBase)):
            where = f" ({name!r})" if name else ""
            raise ValueError(
                f"{flag} has a recurrent layer, {type(part).__name__}{where}, and {WITHOUT_MEMORY}"
            )
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(f"{flag} makes a scripted module (torch.jit): make the module itself")
    named = dict(module.named_parameters())
    for name, parameter in named.items():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"{flag} has a parameter {name!r} without a shape: give the layer its sizes"
            )
        if parameter.dtype != torch.float32:
            kind = str(parameter.dtype).removeprefix("torch.")
            raise ValueError(
                f"{flag}: parameters must be float32, and {name!r} is {kind} (a constant belongs "
                "into a plain attribute)"
            )
    if names := [name for name, _ in module.named_buffers()]:
        raise ValueError(
            f"{flag} has buffers ({', '.join(names)}), such as BatchNorm's statistics, which "
            "Drumline neither trains nor saves: use a layer without them, such as LayerNorm"
        )
    if fault := shared_storage(named):
        raise ValueError(f"{flag} {fault}")


def warn_of_dropout(module: nn.Module, flag: str) -> None:
    """Log that dropout does nothing: modules are in eval mode, for its draws follow the layout."""
    kinds = (nn.modules.dropout._DropoutNd,)
    names = [n for n, part in module.named_modules() if isinstance(part, kinds) and part.p > 0]
    if names:
        _say_dropout(flag, ", ".join(names))


@cache
def _say_dropout(flag: str, names: str) -> None:
    _LOGGER.warning(
        "%s has dropout (%s), which does nothing here: modules learn and act in eval mode",
        flag,
        names,
    )


def shared_storage(named: Mapping[str, nn.Parameter]) -> str:
    """Return how parameters overlap in memory, where one would overwrite another; else nothing."""
    places: list[tuple[int, int, str]] = []
    for name, parameter in named.items():
        if not parameter.numel():
            continue
        steps = zip(parameter.shape, parameter.stride(), strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in steps)
        if extent < parameter.numel():
            return f"has a parameter {name!r} whose elements share storage: clone it"
        start = parameter.data_ptr()
        places.append((start, start + extent * parameter.element_size(), name))
    places.sort()
    for (_, end, one), (start, _, other) in pairwise(places):
        if start < end:
            return (
                f"has parameters that share storage ({one!r} and {other!r}), of which one would "
                "overwrite the other: keep one of them and use it twice in forward"
            )
    return ""


def refuse_draws(call: Callable[[Tensor], Any], tried: Tensor, flag: str) -> None:
    """Raise ValueError if a call draws random numbers: nothing seeds them for each row."""

    def forward() -> None:
        with torch.no_grad():
            call(tried + 1.0)

    if seeding.draws(forward):
        raise ValueError(
            f"{flag} draws random numbers in forward, which no seed would repeat here: let the "
            "method explore, and draw constants in the constructor"
        )


def refuse_frozen(
    module: nn.Module, flag: str, *, searches: bool = False, differentiates: bool = False
) -> None:
    """Raise ValueError for frozen parameters (`requires_grad` False) that a method would move.

    A method that `searches` perturbs the whole vector; one that `differentiates` needs a parameter
    with a gradient. A module that is frozen as a whole is searched as a whole.
    """
    named = dict(module.named_parameters())
    frozen = [name for name, parameter in named.items() if not parameter.requires_grad]
    if differentiates and len(frozen) == len(named):
        raise ValueError(f"{flag}: no parameter requires a gradient, so there is nothing to train")
    if searches and 0 < len(frozen) < len(named):
        raise ValueError(
            f"{flag} has parameters without gradients ({', '.join(frozen)}), which the search "
            "would move too: make them plain attributes, as constants are"
        )


def refuse_memory(call: Callable[[Tensor], Any], tried: Tensor, flag: str) -> None:
    """Raise ValueError if a result for the same observations changes with the calls before it."""

    def outputs(observations: Tensor) -> list[bytes]:
        seeding.seed_globals(0)  # a layer may draw
        result = call(observations)
        parts = result if isinstance(result, tuple) else (result,)
        return [part.numpy().tobytes() for part in parts if isinstance(part, Tensor)]

    with seeding.kept_globals(), torch.no_grad():
        before = outputs(tried)
        outputs(tried + 1.0)
        after = outputs(tried)
    if before != after:
        raise ValueError(
            f"{flag} gives another result for the same observation after others, so it keeps "
            f"state between calls, and {WITHOUT_MEMORY}"
        )
