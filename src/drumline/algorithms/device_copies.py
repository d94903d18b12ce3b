"""Copies of an interval's observations on a device.

The host's part of a copy is a pinned buffer, made once for each array, so that the device reads it
while the host goes on: executors step the next interval, and the learner prepares its targets.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from typing import NamedTuple

import torch
from torch import Tensor

from drumline.algorithms.stacked_rows import Observations, StackedRows


class _Pinned(NamedTuple):
    """A pinned buffer, and the event after which the device has read it."""

    memory: Tensor
    """Bytes."""
    read: torch.cuda.Event | None


class DeviceCopies:
    """Copies observations to a device; the learner reads each interval there many times."""

    def __init__(self, device: torch.device):
        self.device = device
        self._pinned: dict[str, _Pinned] = {}

    def of(self, rows: Observations, final: Observations) -> tuple[Observations, Observations]:
        """Return an interval's rows and last observations on the device.

        Frames that are stored once are copied once, and of the storages only the part that these
        rows show.
        """
        if isinstance(rows, Tensor) or isinstance(final, Tensor):
            assert isinstance(rows, Tensor)
            assert isinstance(final, Tensor)
            return self.copied("rows", rows), self.copied("final", final)
        shown = [part.indices for part in (rows, final) if part.indices.numel()]
        first = min(int(indices.min()) for indices in shown)
        last = max(int(indices.max()) for indices in shown)
        frames = self.copied("frames", rows.frames[first : last + 1])
        return (
            StackedRows(frames, self.copied("rows", rows.indices - first)),
            StackedRows(frames, self.copied("final", final.indices - first)),
        )

    def copied(self, name: str, array: Tensor) -> Tensor:
        """Return a copy on the device; arrays of one name take turns in one pinned buffer."""
        if self.device.type == "cpu" or not array.numel():
            return array.to(self.device)
        cuda = self.device.type == "cuda"
        size = array.numel() * array.element_size()
        pinned = self._pinned.get(name)
        if pinned is None or len(pinned.memory) < size:
            memory = torch.empty(size, dtype=torch.uint8, pin_memory=cuda)
            pinned = self._pinned[name] = _Pinned(memory, torch.cuda.Event() if cuda else None)
        elif pinned.read is not None:
            pinned.read.synchronize()
        staged = pinned.memory[:size].view(array.dtype).view(array.shape)
        staged.copy_(array)
        made = staged.to(self.device, non_blocking=True)
        if pinned.read is not None:
            pinned.read.record(torch.cuda.current_stream(self.device))
        return made
