"""The start-up self-check that a row's forward pass has the same bits in every batch.

The layout decides which processes share a forward pass. A row's output must therefore not depend on
the size of the batch, on the row's place in it, or on the other rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from drumline.policies.inference import Inference, InferenceSpec

ANY = 0
"""Batches of any number of rows (torch's are padded to at least 4)."""

PADDED = (8, 4)
"""Sizes to try if rows keep their bits at one size only; small ones waste least (measured)."""

SINGLE = 1
"""Every row is computed alone."""


class NotInvariant(ValueError):
    """Not even single rows give the same bits twice."""


def choose_rows(
    spec: InferenceSpec,
    arrays: Mapping[str, np.ndarray],
    observations: np.ndarray,
    build: Callable[[InferenceSpec], Inference] = lambda spec: spec(),
) -> int:
    """Return the first that keeps every row's bits: any number of rows, one size, single rows.

    On a device the first to be tried is the size of the largest batch.

    `observations` has as many rows as the largest batch will have.
    """
    # A device picks its kernels by the number of rows: no check could try all of them.
    several = (ANY, *PADDED) if spec.device == "cpu" else ()
    for rows in (*several, len(observations), *(() if several else PADDED), SINGLE):
        inference = build(replace(spec, rows=rows))
        inference.load(arrays)
        if is_invariant(inference, observations):
            return rows
    raise NotInvariant(
        f"the forward pass of --network {spec.network.network} gives other bits for the same row: "
        "no run could be repeated. Look for dropout or other randomness in it"
    )


def is_invariant(inference: Inference, observations: np.ndarray) -> bool:
    """Return whether rows keep their bits over batch sizes, places and other rows."""
    whole = _bits(inference, observations)
    count = len(observations)
    sizes = sorted(
        {1, 2, 3, 4, 5, 7, 8, 11, count // 2, count - 1, count} & set(range(1, count + 1))
    )
    for size in sizes:
        for first in {0, (count - size) // 2, count - size}:
            rows = np.arange(first, first + size)
            if _bits(inference, observations[rows]) != [whole[row] for row in rows]:
                return False
            # the same rows at other places, with other rows
            turned = np.roll(rows, 1)
            if _bits(inference, observations[turned]) != [whole[row] for row in turned]:
                return False
    shuffled = np.arange(count)[::-1]
    return _bits(inference, observations[shuffled]) == [whole[row] for row in shuffled]


def _bits(inference: Inference, observations: np.ndarray) -> list[bytes]:
    outputs, values = inference(np.ascontiguousarray(observations))
    return [o.tobytes() + v.tobytes() for o, v in zip(outputs, values, strict=True)]
