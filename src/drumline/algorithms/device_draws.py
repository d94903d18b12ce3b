"""Minibatches on a device: drawn on the host from named streams as everywhere, then copied.

Every minibatch comes in the same tensors, in one copy: what reads them can be recorded.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drumline.algorithms.td3 import Draws
from drumline.functional.recorded_work import host_buffer
from drumline.types import Minibatch

_AHEAD = 4
"""Minibatches that the host may be ahead of the device."""
_ALIGNED = 64


class DeviceDraws:
    """Minibatches that the host draws, on a device; each is overwritten by the next of its kind."""

    def __init__(self, draws: Draws, device: torch.device):
        self._draws = draws
        self._device = device
        self._batches: _FixedTensors | None = None
        self._observations: _FixedTensors | None = None
        self._batch: Minibatch | None = None
        self.begin = draws.begin

    def draw(self, watermark: int) -> Minibatch:
        """Return the next minibatch, from the window of `watermark`."""
        drawn = self._draws.draw(watermark)
        if self._batches is None or self._batch is None:
            self._batches = _FixedTensors(drawn, self._device)
            self._batch = Minibatch(*self._batches.tensors)
        self._batches.fill(drawn)
        return self._batch

    def draw_observations(self, watermark: int) -> Tensor:
        """Return the observations `[1, B, D]` of the next minibatch."""
        rows = [self._draws.draw_observations(watermark)]
        if self._observations is None:
            self._observations = _FixedTensors(rows, self._device)
        self._observations.fill(rows)
        return self._observations.tensors[0]


class _FixedTensors:
    """Tensors on a device that are filled together through buffers that take turns."""

    def __init__(self, like: Sequence[Tensor], device: torch.device):
        ends = [0]
        for one in like:
            size = one.numel() * one.element_size()
            ends.append(ends[-1] + -(-size // _ALIGNED) * _ALIGNED)
        self._memory = torch.zeros(ends[-1], dtype=torch.uint8, device=device)
        self._turns = [_Turn(ends, like, device) for _ in range(_AHEAD)]
        self._turn = 0
        self.tensors = _views(self._memory, ends, like)

    def fill(self, parts: Sequence[Tensor]) -> None:
        """Copy these, in the order that the device was given its work."""
        self._turn = (self._turn + 1) % _AHEAD
        turn = self._turns[self._turn]
        if turn.read is not None:
            turn.read.synchronize()
        for view, part in zip(turn.views, parts, strict=True):
            view.copy_(part)
        self._memory.copy_(turn.memory, non_blocking=True)
        if turn.read is not None:
            turn.read.record(torch.cuda.current_stream(self._memory.device))


class _Turn:
    """A buffer of the host, and the event after which the device has read it."""

    def __init__(self, ends: Sequence[int], like: Sequence[Tensor], device: torch.device):
        self.memory = host_buffer((ends[-1],), torch.uint8, device)
        self.views = _views(self.memory, ends, like)
        self.read: Any = torch.cuda.Event() if device.type == "cuda" else None


def _views(memory: Tensor, ends: Sequence[int], like: Sequence[Tensor]) -> list[Tensor]:
    """Return parts of the memory in the shapes and kinds of these tensors."""
    return [
        memory[start : start + one.numel() * one.element_size()].view(one.dtype).view(one.shape)
        for start, one in zip(ends, like, strict=False)
    ]
