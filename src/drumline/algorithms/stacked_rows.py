"""StackedRows: observations of frames stored once, stacked only for a batch."""

# pyright: reportUnknownMemberType=false
# (torch's own annotations are incomplete)

import torch
from torch import Tensor

from drumline.types import StackedFrames


class StackedRows:
    """Rows indexed like a tensor `[N, depth · C, ...]`; only a batch is ever stacked."""

    def __init__(self, frames: Tensor, indices: Tensor):
        self.frames = frames
        self.indices = indices

    @staticmethod
    def of(observations: StackedFrames) -> "StackedRows":
        """Return all rows in order, in place."""
        indices = observations.indices.reshape(-1, observations.indices.shape[-1])
        return StackedRows(torch.from_numpy(observations.frames), torch.from_numpy(indices))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | Tensor) -> "StackedRows":
        return StackedRows(self.frames, self.indices[rows])

    def stacked(self) -> Tensor:
        """Return the stacks of these rows."""
        rows, depth = self.indices.shape
        found = self.frames.index_select(0, self.indices.reshape(-1))
        return found.reshape(rows, depth * found.shape[1], *found.shape[2:])


Observations = Tensor | StackedRows


def in_one_piece(observations: Observations) -> Tensor:
    """Return all rows as a tensor of stacks."""
    return observations if isinstance(observations, Tensor) else observations.stacked()
