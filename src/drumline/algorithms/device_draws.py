"""Minibatches on a device: drawn on the host from named streams as everywhere, then copied."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import torch
from torch import Tensor

from drumline.algorithms.device_copies import DeviceCopies
from drumline.algorithms.td3 import Draws
from drumline.types import Minibatch

_AHEAD = 4
"""Minibatches that the host may be ahead of the device."""


class DeviceDraws:
    """Minibatches that the host draws, on a device."""

    def __init__(self, draws: Draws, device: torch.device):
        self._draws = draws
        self._copies = DeviceCopies(device)
        self._turn = 0
        self.begin = draws.begin

    def draw(self, watermark: int) -> Minibatch:
        """Return the next minibatch, from the window of `watermark`."""
        parts = zip(Minibatch._fields, self._draws.draw(watermark), strict=True)
        turn = self._next_turn()
        return Minibatch(*(self._copies.copied(f"{name} {turn}", part) for name, part in parts))

    def draw_observations(self, watermark: int) -> Tensor:
        """Return the observations `[1, B, D]` of the next minibatch."""
        rows = self._draws.draw_observations(watermark)
        return self._copies.copied(f"observations {self._next_turn()}", rows)

    def _next_turn(self) -> int:
        """Return the number of the buffers to copy through."""
        self._turn = (self._turn + 1) % _AHEAD
        return self._turn
