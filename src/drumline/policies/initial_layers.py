"""Initial weights of dense layers, `[inputs, outputs]` in float64."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

InitialLayers = Literal["column-normalized", "orthogonal", "uniform"]


@dataclass(frozen=True)
class Initialization:
    """Rule for the initial weights of a searched MLP; biases are 0 but for `uniform`."""

    layers: InitialLayers = "column-normalized"
    output_scale: float = 0.01
    """Norm of the output layer's columns (orthogonal: gain); `uniform` has none."""

    def weights(
        self, rng: np.random.Generator, inputs: int, outputs: int, *, last: bool
    ) -> np.ndarray:
        """Return the weights of one layer."""
        if self.layers == "uniform":
            return uniform(rng, inputs, (inputs, outputs))
        scale = self.output_scale if last else 1.0
        if self.layers == "orthogonal":
            with threadpool_limits(1, "blas"):  # no number of threads may change a bit
                return scale * orthogonal(rng, inputs, outputs)
        drawn = rng.standard_normal((inputs, outputs))
        return drawn * (scale / np.sqrt(np.square(drawn).sum(axis=0)))

    def bias(self, rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
        """Return the bias of one layer."""
        return uniform(rng, inputs, (outputs,)) if self.layers == "uniform" else np.zeros(outputs)


def uniform(rng: np.random.Generator, inputs: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw uniformly in ±1/√inputs: torch's default for Linear."""
    bound = 1.0 / np.sqrt(inputs)
    return rng.uniform(-bound, bound, shape)


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Return a matrix with orthonormal rows or columns (Saxe et al. 2014)."""
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))
    return q if rows >= columns else q.T
