"""The noise that a worker reads."""

from collections.abc import Mapping

import numpy as np

from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import (
    ReadNoise,
    counter_noise,
    counter_reader,
    table_noise,
    table_reader,
)
from drumline.functional.subspace import SubspaceSpec


def noise_reader(
    seed: int | None,
    subspace: SubspaceSpec | None,
    shared: Mapping[str, np.ndarray],
    low_rank: LowRank | None = None,
) -> ReadNoise:
    """Return the reader of counter noise of `seed`, or of the shared table where it is None.

    With a subspace it reads M ε.
    """
    if low_rank is not None:
        assert seed is not None, "noise of low rank is at counters"
        return LowRankNoise(seed, low_rank).read
    if subspace is None:
        return table_reader(shared["noise"]) if seed is None else counter_reader(seed)
    if seed is not None:
        return subspace.of(counter_noise(seed)).reader()
    count = subspace.parameter_count
    return subspace.of(table_noise(shared["noise"], count, subspace.seed)).reader()
