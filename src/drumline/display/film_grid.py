"""Episodes side by side in one film: all begin at once, and an ended one keeps its last frame."""

import math
import tempfile
from typing import Any, Protocol

import numpy as np


class FilmWriter(Protocol):
    """A film that takes a frame after the other."""

    def append_data(self, frame: np.ndarray) -> None:
        """Take one frame `[height, width, 3]`."""


class FilmGrid:
    """Keeps the frames of episodes that run one after the other, then writes them side by side.

    Frames wait in a file without a name, with every m-th pixel, so that all columns together are
    about as wide as one frame was.
    """

    def __init__(self, episodes: int):
        self._columns = math.ceil(math.sqrt(episodes))
        self._rows = math.ceil(episodes / self._columns)
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115 - `close` is called by the film
        self._shape: tuple[int, ...] | None = None
        self._starts: list[int] = []
        self._frames = 0

    def begin(self) -> None:
        """Begin the next episode."""
        self._starts.append(self._frames)

    def append_data(self, frame: np.ndarray) -> None:
        """Keep one frame `[height, width, 3]` of the running episode."""
        small = np.ascontiguousarray(frame[:: self._columns, :: self._columns])
        if self._shape is None:
            self._shape = small.shape
        if small.shape != self._shape:
            raise ValueError(f"frames of {small.shape} and {self._shape} make no grid")
        self._file.write(small.tobytes())
        self._frames += 1

    def write(self, film: FilmWriter) -> None:
        """Write the grid, as many frames as the longest episode has."""
        assert self._shape is not None, "every episode has a first frame"
        ends = [*self._starts[1:], self._frames]
        lengths = [end - start for start, end in zip(self._starts, ends, strict=True)]
        height, width, colours = self._shape
        sides = (self._rows * height, self._columns * width, colours)
        grid = np.zeros([side + side % 2 for side in sides[:2]] + [colours], np.uint8)
        for t in range(max(lengths)):
            for place, (start, length) in enumerate(zip(self._starts, lengths, strict=True)):
                if t > length:  # it has its last frame already, darker
                    continue
                row, column = divmod(place, self._columns)
                frame = self._frame(start + min(t, length - 1))
                rows = slice(row * height, (row + 1) * height)
                grid[rows, column * width : (column + 1) * width] = (
                    frame if t < length else frame // 2
                )
            film.append_data(grid)

    def close(self) -> None:
        """Give the kept frames' room back."""
        self._file.close()

    def _frame(self, index: int) -> np.ndarray:
        assert self._shape is not None
        size = math.prod(self._shape)
        self._file.seek(index * size)
        return np.frombuffer(self._file.read(size), np.uint8).reshape(self._shape)
