"""Random subspaces: θ = θ₀ + M z with a random [P, D] matrix that noise names (Li et al. 2018).

M is never stored. Its columns are perturbations of the noise source, named by keys like any other,
so that every process reads the same ones, tile by tile. Each is divided by √D: entries of M ε have
variance 1 for standard normal ε, so one σ and one step size mean the same in every subspace. (Li et
al. give the columns length 1, which is another scale of z.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from drumline.functional.perturbation import TILE, Noise, ReadNoise, weighted_noise_sum


@dataclass(frozen=True)
class SubspaceSpec:
    """A subspace as a picklable record: with a noise source it names all of M."""

    dimensions: int
    parameter_count: int
    seed: int
    """Seed of the noise source."""

    def of(self, noise: Noise) -> "Subspace":
        """Return the subspace whose columns are perturbations of `noise`."""
        return Subspace(self, noise.read, noise.columns(self.dimensions))


class Subspace:
    """M of a subspace, as products with it."""

    def __init__(self, spec: SubspaceSpec, read: ReadNoise, columns: Sequence[int]):
        self.spec = spec
        self._read = read
        self._columns = columns
        self._scale = np.float32(1.0 / np.sqrt(spec.dimensions))
        # Neighbouring slices of a table overlap, so most of M is read from a cache.
        self._order: list[int] = sorted(range(len(columns)), key=columns.__getitem__)

    def moved(
        self,
        origin: Float32[np.ndarray, " P"],
        coordinates: Float32[np.ndarray, " D"],
        threads: int = 1,
    ) -> Float32[np.ndarray, " P"]:
        """θ₀ + M z: the same bits on any number of threads."""
        weights = coordinates * self._scale
        count = self.spec.parameter_count
        return origin + weighted_noise_sum(
            self._read, self._columns, weights.tolist(), count, threads=threads
        )

    def reader(self) -> ReadNoise:
        """Read M ε in place of a perturbation ε `[D]`, so that all P parameters are perturbed."""
        count = self.spec.dimensions
        own = np.empty(count, np.float32)
        product = np.empty(min(TILE, self.spec.parameter_count), np.float32)

        def read(key: int, start: int, stop: int, scratch: np.ndarray) -> np.ndarray:
            weights = self._read(key, 0, count, own) * self._scale
            out = scratch[: stop - start]
            out[:] = 0.0
            for low in range(start, stop, TILE):
                high = min(low + TILE, stop)
                sums, piece = out[low - start : high - start], product[: high - low]
                for column in self._order:
                    row = self._read(self._columns[column], low, high, piece)
                    np.multiply(row, weights[column], piece)
                    np.add(sums, piece, sums)
            return out

        return read
