"""The norm of a vector in an order that does not depend on the number of threads.

On the host torch splits a sum over its threads from 32,768 elements on, so the last bits of
`x.sum()` depend on the number of threads (measured). Blocks below that size are added by one thread
each.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_BLOCK = 16_384
_linalg: Any = torch.linalg  # its functions have no types


def euclidean_norm(values: Float[Tensor, " N"]) -> float:
    """√Σx², block by block, the blocks in float64; the same bits for any thread count.

    A device adds in an order of its own that is the same every time: one sum in float64.
    """
    if values.device.type != "cpu":
        return float(_linalg.vector_norm(values, dtype=torch.float64))
    if len(values) <= _BLOCK:
        return float(_linalg.vector_norm(values))
    blocks = torch.stack([_linalg.vector_norm(block) for block in _blocks(values)])
    return float(_linalg.vector_norm(blocks.double()))


def _blocks(values: Tensor) -> Iterator[Tensor]:
    for start in range(0, len(values), _BLOCK):
        yield values[start : start + _BLOCK]
