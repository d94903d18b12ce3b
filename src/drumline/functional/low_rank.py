"""Low-rank noise: E = A Bᵀ / √R for each matrix of a vector's tensors, and sums over it.

EGGROLL (Sarkar et al. 2025, "Evolution Strategies at the Hyperscale"). A has R numbers for each row
of the matrix and B has R for each column, all standard normal. What is no matrix, and a matrix that
is not larger than its factors, has noise of full rank.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# (threadpoolctl has no annotations)

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from threadpoolctl import threadpool_limits

from drumline.functional.perturbation import (
    Noise,
    counter_noise,
    counter_reader,
    generation_free_keys,
    generation_keys,
    spread,
    weighted_noise_sum,
)

_HELD = 1 << 20
"""Numbers of noise that a reader keeps of its latest key, and that a sum holds of several keys."""

_ROWS = 256
_DEPTH = 256
"""Rows of a matrix, and vectors that are summed, in one product of an update. Constant: the shape
of a product decides its bits."""


class Place(NamedTuple):
    """Where a tensor lies in the vector, and where its numbers lie in the noise."""

    start: int
    """First parameter."""
    rows: int
    columns: int
    """0: a tensor of `rows` numbers with noise of full rank."""
    first: int
    """First number: in the factors of all matrices, or in the numbers of full rank."""

    @property
    def size(self) -> int:
        """Return the number of parameters."""
        return self.rows * max(1, self.columns)


class Factors(NamedTuple):
    """Noise of one matrix: E = Σ_r left[r] ⊗ right[r]."""

    left: Float32[np.ndarray, "R rows"]
    """Aᵀ / √R."""
    right: Float32[np.ndarray, "R columns"]
    """Bᵀ."""


@dataclass(frozen=True)
class LowRank:
    """Rank R of the noise, and the shapes of a vector's tensors in their order.

    A tensor of two or more dimensions `[n, …]` is a matrix `[n, rest]`, as a convolution's weights
    `[out, in, kh, kw]` are; it has factors if these have fewer numbers than the matrix.
    """

    rank: int
    shapes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"noise of low rank needs a rank of 1 or more, got {self.rank}")
        if not any(place.columns for place in self.places):
            raise ValueError(
                f"--noise low-rank:{self.rank}: no parameter is a matrix with more numbers than "
                "its two factors of that rank: take a smaller rank, or noise of full rank"
            )

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Return the place of each tensor."""
        sizes = [math.prod(shape) for shape in self.shapes]
        starts = accumulate(sizes, initial=0)
        factors = numbers = 0
        places: list[Place] = []
        for shape, size, start in zip(self.shapes, sizes, starts, strict=False):
            rows, columns = (shape[0], size // max(1, shape[0])) if len(shape) > 1 else (size, 0)
            if self.rank * (rows + columns) < rows * columns:
                places.append(Place(start, rows, columns, factors))
                factors += self.rank * (rows + columns)
            else:
                places.append(Place(start, size, 0, numbers))
                numbers += size
        return tuple(places)

    @cached_property
    def parameter_count(self) -> int:
        """Return P."""
        return sum(place.size for place in self.places)

    @cached_property
    def factor_count(self) -> int:
        """Return how many numbers the factors of all matrices have."""
        return sum(self.rank * (p.rows + p.columns) for p in self.places if p.columns)

    @cached_property
    def full_count(self) -> int:
        """Return how many parameters have noise of full rank."""
        return sum(place.rows for place in self.places if not place.columns)

    def factors(self, numbers: Float32[np.ndarray, " F"], place: Place) -> Factors:
        """Return the factors of the matrix at `place` out of all factors' numbers."""
        middle = place.first + self.rank * place.rows
        left = numbers[place.first : middle].reshape(self.rank, place.rows)
        right = numbers[middle : middle + self.rank * place.columns]
        scaled = left * np.float32(1.0 / math.sqrt(self.rank))
        return Factors(scaled, right.reshape(self.rank, place.columns))


class LowRankNoise:
    """Noise of one seed: the numbers of a key, ε in slices, and sums over keys.

    The numbers of all matrices' factors are one stream for each key (generation and pair), those of
    full rank another; a tensor's place in it names them, so equal shapes have unequal noise. A
    reader may be shared by threads.
    """

    def __init__(self, seed: int, layout: LowRank):
        self._layout = layout
        self._factors = counter_reader(seed, "noise-factors")
        self._full = counter_reader(seed, "noise-full-rank")
        self._keeps = layout.full_count <= _HELD
        self._latest: tuple[int, list[Factors], np.ndarray] = (-1, [], np.empty(0, np.float32))
        self._ends = [place.start + place.size for place in layout.places]
        self._matrices = list(accumulate((p.columns > 0 for p in layout.places), initial=0))

    def noise(self) -> Noise:
        """Return the noise as a source for a strategy."""
        return Noise(self.read, generation_keys, generation_free_keys, self.weighted_sum)

    def of(self, key: int) -> list[Factors]:
        """Return the factors of every matrix, in the order of the tensors."""
        return self._numbers(key)[1]

    def full(self, key: int) -> Float32[np.ndarray, " G"]:
        """Return the numbers of all tensors of full rank, one after the other."""
        if self._keeps:
            return self._numbers(key)[2]
        count = self._layout.full_count
        return self._full(key, 0, count, np.empty(count, np.float32))

    def read(
        self, key: int, start: int, stop: int, scratch: Float32[np.ndarray, " n"]
    ) -> Float32[np.ndarray, " m"]:
        """Return ε[start:stop] in `scratch`; each number is made alone, so slices keep bits."""
        out = scratch[: stop - start]
        _, factors, kept = self._numbers(key)
        places, number, low = self._layout.places, bisect_right(self._ends, start), start
        while low < stop:
            place = places[number]
            high = min(stop, self._ends[number])
            piece, skipped = out[low - start : high - start], low - place.start
            first = place.first + skipped
            if place.columns:
                _entries(factors[self._matrices[number]], skipped, piece)
            elif self._keeps:
                piece[:] = kept[first : first + piece.size]
            else:
                self._full(key, first, first + piece.size, piece)
            low, number = high, number + 1
        return out

    def weighted_sum(
        self, keys: Sequence[int], weights: Sequence[float], parameter_count: int, threads: int
    ) -> Float32[np.ndarray, " P"]:
        """Σᵢ wᵢ εᵢ: of a matrix one product of factors, [rows, n R] · [n R, columns].

        Keys are taken in their order, a fixed number at a time, and rows of a matrix a fixed number
        at a time, so threads change no bit. BLAS has one thread: on some processors it splits a
        product among several where other bits come out.
        """
        layout, rank = self._layout, self._layout.rank
        if parameter_count != layout.parameter_count:
            raise ValueError(
                f"noise of low rank is for {layout.parameter_count} parameters, "
                f"got {parameter_count}"
            )
        total = np.zeros(parameter_count, np.float32)
        full = weighted_noise_sum(self._full, keys, weights, layout.full_count, threads=threads)
        for place in layout.places:
            if not place.columns:
                part = full[place.first : place.first + place.rows]
                total[place.start : place.start + place.rows] = part
        scale = np.float32(1.0 / math.sqrt(rank))
        factors = np.asarray(weights, np.float32)
        chosen = sorted(np.flatnonzero(factors).tolist(), key=keys.__getitem__)
        at_once = max(1, min(_DEPTH // rank, _HELD // layout.factor_count))
        slabs = [
            (place, row)
            for place in layout.places
            if place.columns
            for row in range(0, place.rows, _ROWS)
        ]
        for begin in range(0, len(chosen), at_once):
            group = chosen[begin : begin + at_once]
            numbers = np.empty((len(group), layout.factor_count), np.float32)
            scales = (factors[group] * scale)[:, None, None]

            def draw(number: int, group: list[int] = group, numbers: np.ndarray = numbers) -> None:
                row = numbers[number]
                self._factors(keys[group[number]], 0, row.size, row)

            def add(
                number: int, numbers: np.ndarray = numbers, scales: np.ndarray = scales
            ) -> None:
                place, row = slabs[number]
                stop, middle = min(place.rows, row + _ROWS), place.first + rank * place.rows
                left = numbers[:, place.first : middle].reshape(-1, rank, place.rows)
                weighted = (left[:, :, row:stop] * scales).reshape(-1, stop - row)
                right = numbers[:, middle : middle + rank * place.columns]
                product = weighted.T @ right.reshape(-1, place.columns)
                first = place.start + row * place.columns
                total[first : first + product.size] += product.ravel()

            spread(draw, range(len(group)), threads)
            with threadpool_limits(1, "blas"):
                spread(add, range(len(slabs)), threads)
        return total

    def _numbers(self, key: int) -> tuple[int, list[Factors], np.ndarray]:
        latest = self._latest
        if latest[0] != key:
            layout = self._layout
            drawn = self._factors(
                key, 0, layout.factor_count, np.empty(layout.factor_count, np.float32)
            )
            kept = layout.full_count if self._keeps else 0
            full = self._full(key, 0, kept, np.empty(kept, np.float32))
            made = [layout.factors(drawn, place) for place in layout.places if place.columns]
            self._latest = latest = (key, made, full)
        return latest


def _entries(factors: Factors, first: int, out: Float32[np.ndarray, " n"]) -> None:
    """Write entries `first`, … of E, row by row, into `out`."""
    columns = factors.right.shape[1]
    row, column = divmod(first, columns)
    done = 0
    if column or out.size < columns:
        done = min(columns - column, out.size)
        _block(factors, row, row + 1, column, column + done, out[:done].reshape(1, done))
        row += 1
    whole = (out.size - done) // columns
    if whole:
        block = out[done : done + whole * columns].reshape(whole, columns)
        _block(factors, row, row + whole, 0, columns, block)
        row, done = row + whole, done + whole * columns
    if done < out.size:
        rest = out[done:].reshape(1, -1)
        _block(factors, row, row + 1, 0, rest.size, rest)


def _block(
    factors: Factors, row: int, end: int, column: int, stop: int, out: Float32[np.ndarray, "m n"]
) -> None:
    for number, (left, right) in enumerate(zip(*factors, strict=True)):
        one, other = left[row:end, None], right[None, column:stop]
        if number == 0:
            np.multiply(one, other, out=out)
        else:
            np.add(out, one * other, out=out)


def seeded_noise(seed: int, layout: LowRank | None) -> Noise:
    """Return noise at counters: of low rank over a layout, or of full rank."""
    return counter_noise(seed) if layout is None else LowRankNoise(seed, layout).noise()
