"""The noise that a worker reads."""

from collections.abc import Mapping

import numpy as np

from drumline.functional.low_rank import LowRank, seeded_noise
from drumline.functional.perturbation import ReadNoise, table_noise, table_reader
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
    if seed is not None:
        noise = seeded_noise(seed, low_rank)
    elif subspace is None:
        return table_reader(shared["noise"])
    else:
        noise = table_noise(shared["noise"], subspace.parameter_count, subspace.seed)
    return noise.read if subspace is None else subspace.of(noise).reader()
