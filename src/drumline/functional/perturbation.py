"""Noise named by keys instead of sent: two sources behind one interface, and sums over it.

A perturbation ε of P parameters is named by an integer key. A process with the key reads any slice
of ε: from a table that all processes of a machine share, or from a counter-based generator.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from drumline import seeding

TILE = 65_536
"""Parameters per tile of counter noise, which restarts its stream at every tile."""

_LONG_SPAN = 2 * TILE
"""Parameters that a thread sums at a time, if there are enough for all threads.

NumPy's calls then cost little, and sum and product still stay in the caches. It never changes a
bit.
"""

_FUSED_SPAN = 4 * TILE

FUSED_FROM = 1 << 19
"""Parameters from which on sums take one pass a term, and round it once.

Importing torch for it takes a second, where a policy does not.
"""

TABLE_BLOCK = 1 << 20
ALIGNMENT = 16
"""Offsets into the table are multiples of 16 floats: one cache line."""

_NO_GENERATION = 0xFFFFFFFF

ReadNoise = Callable[[int, int, int, np.ndarray], np.ndarray]
"""(key, start, stop, scratch) → ε[start:stop]; may return a view of the table or of `scratch`."""


Pieces = Iterable[tuple[int, Float32[np.ndarray, " n"]]]
"""Pieces of a vector in order, each with its start; a piece is valid until the next one."""


WeightedSum = Callable[[Sequence[int], Sequence[float], int, int], Float32[np.ndarray, " P"]]
"""(keys, weights, parameter count, threads) → Σᵢ wᵢ εᵢ `[P]`, the same bits on any threads."""


@dataclass(frozen=True)
class Noise:
    """A noise source: the reader of a perturbation, and the keys of each generation's pairs."""

    read: ReadNoise
    keys: Callable[[int, int, int], list[int]]
    """(generation, first pair, count) → keys."""
    columns: Callable[[int], list[int]]
    """Count → keys of as many perturbations that are of no generation."""
    sum: WeightedSum | None = None
    """A source's own sum; None: `weighted_noise_sum`, which makes every ε."""

    def weighted_sum(
        self, keys: Sequence[int], weights: Sequence[float], parameter_count: int, threads: int
    ) -> Float32[np.ndarray, " P"]:
        """Return Σᵢ wᵢ εᵢ over all parameters."""
        if self.sum is not None:
            return self.sum(keys, weights, parameter_count, threads)
        return weighted_noise_sum(self.read, keys, weights, parameter_count, threads=threads)


def fill_table(table: Float32[np.ndarray, " L"], seed: int, threads: int = 1) -> None:
    """Fill with standard normals in fixed blocks, so that no thread count changes the content."""
    stream = seeding.key(seed, "noise-table")

    def fill(block: int) -> None:
        piece = table[block * TABLE_BLOCK : (block + 1) * TABLE_BLOCK]
        seeding.counter_generator(stream, block).standard_normal(dtype=np.float32, out=piece)

    spread(fill, range(-(-table.size // TABLE_BLOCK)), threads)


def table_noise(table: Float32[np.ndarray, " L"], parameter_count: int, seed: int) -> Noise:
    """Noise from slices of a shared table at aligned offsets (the reference's table)."""
    if table.size < parameter_count:
        raise ValueError(
            f"a noise table of {table.size} floats is smaller than the {parameter_count} "
            "parameters: raise --noise-table-size or use --noise counter"
        )
    places = place_count(table.size, parameter_count)

    def keys(generation: int, first: int, count: int) -> list[int]:
        raw = seeding.raw(seed, first + count, "noise", generation)[first:]
        return _offsets(raw, places)

    def columns(count: int) -> list[int]:
        return _offsets(seeding.raw(seed, count, "subspace"), places)

    return Noise(table_reader(table), keys, columns)


def place_count(table_size: int, parameter_count: int) -> int:
    """Return how many different slices of P floats a table has."""
    return max(0, (table_size - parameter_count) // ALIGNMENT + 1)


def _offsets(raw: np.ndarray, places: int) -> list[int]:
    return ((raw % np.uint64(places)) * np.uint64(ALIGNMENT)).tolist()


def table_reader(table: Float32[np.ndarray, " L"]) -> ReadNoise:
    """Read slices of the table in place."""

    def read(key: int, start: int, stop: int, scratch: np.ndarray) -> np.ndarray:
        return table[key + start : key + stop]

    return read


def counter_noise(seed: int) -> Noise:
    """Noise from Philox at counter (tile, pair, generation): any P, no table, 10–16× slower."""
    return Noise(counter_reader(seed), generation_keys, generation_free_keys)


def generation_keys(generation: int, first: int, count: int) -> list[int]:
    """Return the keys of `count` pairs of a generation, for noise at counters."""
    return [generation << 32 | pair for pair in range(first, first + count)]


def generation_free_keys(count: int) -> list[int]:
    """Return keys of `count` perturbations that are of no generation."""
    return generation_keys(_NO_GENERATION, 0, count)


def counter_reader(seed: int, role: str = "noise") -> ReadNoise:
    """Draw whole tiles and cut them, so that start and stop need not be at a tile's edge."""
    stream = seeding.key(seed, role)

    def read(key: int, start: int, stop: int, scratch: np.ndarray) -> np.ndarray:
        out = scratch[: stop - start]
        for tile in range(start // TILE, -(-stop // TILE)):
            low, high = max(start, tile * TILE), min(stop, (tile + 1) * TILE)
            draw = seeding.counter_generator(stream, tile, key & 0xFFFFFFFF, key >> 32)
            if low == tile * TILE:
                draw.standard_normal(dtype=np.float32, out=out[low - start : high - start])
            else:
                whole = draw.standard_normal(high - tile * TILE, dtype=np.float32)
                out[low - start : high - start] = whole[low - tile * TILE :]
        return out

    return read


def subset_range(key: int, parameter_count: int, fraction: float) -> tuple[int, int]:
    """Return the contiguous block of parameters that the pair named `key` perturbs or uses.

    P is cut into 1 / `fraction` blocks, rounded, whose sizes differ by 1 at most; the block is a
    function of the key alone.
    """
    blocks = min(parameter_count, block_count(fraction))
    # SplitMix64's finaliser: neighbouring keys must not choose neighbouring blocks.
    mixed = (key + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    block = (mixed ^ (mixed >> 31)) % blocks
    return block * parameter_count // blocks, (block + 1) * parameter_count // blocks


def block_count(fraction: float) -> int:
    """Return the number of blocks that have about that share of the parameters each."""
    return max(1, round(1.0 / fraction))


def perturb(
    parameters: Float32[np.ndarray, " P"],
    read: ReadNoise,
    key: int,
    scale: float,
    out: Float32[np.ndarray, " P"],
    within: tuple[int, int] | None = None,
) -> None:
    """Write θ + scale · ε into `out`; `within` limits ε to one block of parameters."""
    start, stop = within or (0, parameters.size)
    if (start, stop) != (0, parameters.size):
        np.copyto(out, parameters)
    piece = out[start:stop]
    np.multiply(read(key, start, stop, piece), np.float32(scale), out=piece)
    np.add(piece, parameters[start:stop], out=piece)


def pieces_of(vector: Float32[np.ndarray, " P"]) -> Pieces:
    """Yield a vector tile by tile, each copied into the memory of one tile."""
    scratch = np.empty(min(TILE, vector.size), np.float32)
    for start in range(0, vector.size, TILE):
        piece = scratch[: min(TILE, vector.size - start)]
        np.copyto(piece, vector[start : start + piece.size])
        yield start, piece


def perturbed_pieces(
    parameters: Float32[np.ndarray, " P"],
    read: ReadNoise,
    key: int,
    scale: float,
    within: tuple[int, int] | None = None,
) -> Pieces:
    """Yield θ + scale · ε tile by tile, the bits of `perturb`, in the memory of one tile."""
    first, last = within or (0, parameters.size)
    scratch = np.empty(min(TILE, parameters.size), np.float32)
    for start in range(0, parameters.size, TILE):
        piece = scratch[: min(TILE, parameters.size - start)]
        low, high = max(first, start), min(last, start + piece.size)
        if (low, high) != (start, start + piece.size):
            np.copyto(piece, parameters[start : start + piece.size])
        if low < high:
            part = piece[low - start : high - start]
            np.multiply(read(key, low, high, part), np.float32(scale), out=part)
            np.add(part, parameters[low:high], out=part)
        yield start, piece


def weighted_noise_sum(
    read: ReadNoise,
    keys: Sequence[int],
    weights: Sequence[float],
    parameter_count: int,
    *,
    ranges: Sequence[tuple[int, int]] | None = None,
    threads: int = 1,
) -> Float32[np.ndarray, " P"]:
    """Σᵢ wᵢ εᵢ in the order of the keys: the same bits on any number of threads.

    In that order neighbouring slices of a table overlap, so that most of the noise is read from a
    cache. The noise is never copied: one pass, one span of scratch memory per thread. BLAS's axpy
    would need half as many passes, but rounds its last elements differently from the others. From
    `FUSED_FROM` parameters on, torch's addition takes its place where it does not
    (`fused_sums.py`): a term is then rounded once instead of twice.
    """
    if parameter_count < FUSED_FROM:
        return _sum(read, keys, weights, parameter_count, ranges, threads, _LONG_SPAN, None)
    from drumline.functional.fused_sums import fused_addition, one_torch_thread

    addition = fused_addition()
    longest = _LONG_SPAN if addition is None else _FUSED_SPAN
    with one_torch_thread():
        return _sum(read, keys, weights, parameter_count, ranges, threads, longest, addition)


def _sum(
    read: ReadNoise,
    keys: Sequence[int],
    weights: Sequence[float],
    parameter_count: int,
    ranges: Sequence[tuple[int, int]] | None,
    threads: int,
    longest: int,
    fused: Callable[[np.ndarray, np.ndarray, np.float32], None] | None,
) -> Float32[np.ndarray, " P"]:
    total = np.zeros(parameter_count, dtype=np.float32)
    factors = np.asarray(weights, dtype=np.float32)
    chosen = sorted(np.flatnonzero(factors).tolist(), key=keys.__getitem__)
    named = [(keys[i], factors[i]) for i in chosen]
    span = min(longest, max(TILE, parameter_count // (threads * TILE) * TILE))
    multiply, add = np.multiply, np.add

    def add_whole(start: int, stop: int, product: np.ndarray) -> None:
        """Add all perturbations; threads wait for each other's Python, so there is little of it."""
        sums = total[start:stop]
        if fused is not None:
            for key, factor in named:
                fused(sums, read(key, start, stop, product), factor)
            return
        for key, factor in named:
            multiply(read(key, start, stop, product), factor, product)
            add(sums, product, sums)

    def add_parts(start: int, stop: int, product: np.ndarray) -> None:
        assert ranges is not None
        for i in chosen:
            low, high = max(start, ranges[i][0]), min(stop, ranges[i][1])
            if low >= high:
                continue
            piece, sums = product[: high - low], total[low:high]
            noise = read(keys[i], low, high, piece)
            if fused is not None:
                fused(sums, noise, factors[i])
            else:
                multiply(noise, factors[i], piece)
                add(sums, piece, sums)

    def add_span(number: int) -> None:
        start, stop = number * span, min((number + 1) * span, parameter_count)
        product = np.empty(stop - start, dtype=np.float32)
        (add_whole if ranges is None else add_parts)(start, stop, product)

    spread(add_span, range(-(-parameter_count // span)), threads)
    return total


def spread(work: Callable[[int], None], items: range, threads: int) -> None:
    """Run `work` on every item; the thread of an item must not matter."""
    if threads <= 1 or len(items) <= 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        list(pool.map(work, items))
