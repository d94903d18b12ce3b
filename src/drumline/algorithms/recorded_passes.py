"""RecordedPass: a network's forward and backward pass on batches of one size, on a device."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drumline.functional.recorded_work import RecordedWork, finish, host_buffer
from drumline.functional.torch_devices import host_array
from drumline.policies.vector import FlatParameters

MOST_ROWS = 1024
"""Larger batches keep a GPU busy for longer than the host takes to start their kernels, and a
recording keeps their activations."""
MOST_SIZES = 4
"""Sizes of batches that are recorded, at most."""

_add: Any = getattr(torch, "_foreach_add_")  # noqa: B009 - private and untyped

Forward = Callable[[FlatParameters, Tensor], tuple[Tensor, Tensor]]
"""(parameters, observations) → outputs `[N, O]` and values `[N]`."""


class Passed(NamedTuple):
    """Rows after the forward pass."""

    outputs: np.ndarray
    values: np.ndarray
    backward: Callable[[np.ndarray, np.ndarray], None]
    """(derivatives by outputs and values) → adds to the gradient of the parameters."""


def passed(evaluated: Sequence[Tensor]) -> Passed:
    """Return rows that autograd goes back through; `evaluated`: outputs and values."""

    def backward(*downwards: np.ndarray) -> None:
        given = (torch.from_numpy(part).to(evaluated[0].device) for part in downwards)
        pairs = list(zip(evaluated, given, strict=True))
        # A user's network may give constant values, which have no graph.
        attached = [pair for pair in pairs if pair[0].requires_grad] or pairs
        torch.autograd.backward([pair[0] for pair in attached], [pair[1] for pair in attached])

    outputs, values = map(host_array, evaluated)
    return Passed(outputs, values, backward)


class RecordedPass:
    """Forward and backward pass of a library's network for so many rows, again and again."""

    def __init__(self, forward: Forward, at: FlatParameters, rows: Tensor):
        """`rows`: a batch of the size and kind that it will be given."""
        self._forward = forward
        self._at = at
        self._device = rows.device
        self._given = torch.empty_like(rows)
        self._parameters = list(at.module.parameters())
        self._gradients: Sequence[Tensor] = ()
        self._evaluated: tuple[Tensor, ...] = ()
        with torch.no_grad():
            like = forward(at, rows)
        self._results, self._staged = (
            [host_buffer(tuple(one.shape), one.dtype, rows.device) for one in like]
            for _ in range(2)
        )
        self._downwards = [torch.empty_like(one) for one in like]
        self._work = RecordedWork(rows.device, self._go_forward, self._go_back)

    def __call__(self, rows: Tensor) -> Passed:
        """Return outputs and values, until the next call; `backward` may be called once."""
        self._given.copy_(rows)
        self._work(0)
        finish(self._device)
        outputs, values = (result.numpy() for result in self._results)
        return Passed(outputs, values, self._backward)

    def _backward(self, *downwards: np.ndarray) -> None:
        for staged, part in zip(self._staged, downwards, strict=True):
            staged.copy_(torch.from_numpy(part))
        self._work(1)
        _add([parameter.grad for parameter in self._parameters], self._gradients)

    def _go_forward(self) -> None:
        with torch.enable_grad():
            self._evaluated = self._forward(self._at, self._given)
        for result, found in zip(self._results, self._evaluated, strict=True):
            result.copy_(found.detach(), non_blocking=True)

    def _go_back(self) -> None:
        for down, staged in zip(self._downwards, self._staged, strict=True):
            down.copy_(staged, non_blocking=True)
        self._gradients = torch.autograd.grad(self._evaluated, self._parameters, self._downwards)
