"""Minibatches of one job, drawn from named streams in blocks and copied to torch's memory."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

import numpy as np
import torch
from torch import Tensor

from drumline.buffers.replay import Batch, Replay
from drumline.types import Minibatch

BLOCK = 64
"""Minibatches whose random numbers are drawn at once."""


class Minibatches:
    """Draws for one job after another, each a function of the job's streams alone."""

    def __init__(self, replay: Replay, batch_size: int, noise_size: int = 0):
        shape = replay.shape
        if shape.capacity < batch_size:
            raise ValueError(f"a replay of {shape.capacity} is smaller than a batch ({batch_size})")
        self._replay = replay
        self._size = batch_size
        self._batch = Batch.allocate(batch_size, shape)
        self._noise = np.zeros((BLOCK, batch_size, noise_size), np.float32)
        self._noises = torch.from_numpy(self._noise)
        self._tensors = [torch.from_numpy(array) for array in self._batch]
        self._uniform = np.zeros((BLOCK, batch_size))
        self._next = BLOCK
        self._streams: tuple[np.random.Generator, np.random.Generator] | None = None

    def begin(self, rows: np.random.Generator, noise: np.random.Generator) -> None:
        """Start the draws of one job, from its streams of rows and of noise."""
        self._streams = rows, noise
        self._next = BLOCK

    def draw(self, watermark: int) -> Minibatch:
        """Return the next minibatch, from the window of `watermark`."""
        number = self._advance()
        assert self._streams is not None, "a job has begun"
        if self._noise.size and number == 0:
            self._streams[1].standard_normal(out=self._noise, dtype=np.float32)
        self._replay.gather(self._replay.rows(self._uniform[number], watermark), self._batch)
        observations, actions, rewards, terminated, following = self._tensors
        return Minibatch(
            observations[None],
            actions[None],
            rewards,
            terminated,
            following[None],
            self._noises[number][None],
        )

    def draw_observations(self, watermark: int) -> Tensor:
        """Return the observations `[1, B, D]` of the next minibatch."""
        rows = self._replay.rows(self._uniform[self._advance()], watermark)
        self._replay.gather_observations(rows, self._batch.observations)
        return self._tensors[0][None]

    def _advance(self) -> int:
        assert self._streams is not None, "a job has begun"
        if self._next == BLOCK:
            self._streams[0].random(out=self._uniform)
            self._next = 0
        self._next += 1
        return self._next - 1
