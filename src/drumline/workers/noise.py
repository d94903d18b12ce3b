"""The noise that a worker reads."""

from collections.abc import Mapping

import numpy as np

from drumline.functional.perturbation import (
    ReadNoise,
    counter_noise,
    counter_reader,
    table_noise,
    table_reader,
)
from drumline.functional.subspace import SubspaceSpec


def noise_reader(
    seed: int | None, subspace: SubspaceSpec | None, shared: Mapping[str, np.ndarray]
) -> ReadNoise:
    """Return the reader of counter noise of `seed`, or of the shared table where it is None.

    With a subspace it reads M ε.
    """
    if subspace is None:
        return table_reader(shared["noise"]) if seed is None else counter_reader(seed)
    if seed is not None:
        return subspace.of(counter_noise(seed)).reader()
    count = subspace.parameter_count
    return subspace.of(table_noise(shared["noise"], count, subspace.seed)).reader()
