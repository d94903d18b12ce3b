"""Gradients and metrics of shards: what one shard contributes, and their sums in shard order."""

# pyright: reportUnknownMemberType=false
# (torch's own annotations are incomplete)

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from drumline.functional.shards import Shards, add_up
from drumline.functional.torch_devices import host_array
from drumline.policies.vector import FlatParameters
from drumline.types import Metrics


def gradient_part(at: FlatParameters, shards: Shards) -> np.ndarray:
    """Return the gradient `[P]` of one shard; a copy, where another shard's is to follow.

    A device has one shard, whose gradient stays there: nothing is returned.
    """
    if at.gradient.device.type != "cpu" and shards.count == 1:
        return np.empty(0, np.float32)
    gradient = host_array(at.gradient)
    return gradient if shards.count == 1 else gradient.copy()


def summed_gradient(at: FlatParameters, gradients: Sequence[np.ndarray]) -> Tensor:
    """Return the sum over shards, which may be changed in place."""
    if len(gradients) == 1:
        return at.gradient
    total = torch.zeros_like(at.gradient)
    add_up(gradients, total.numpy())
    return total


def metrics_part(metrics: Sequence[Metrics]) -> np.ndarray:
    """Return the metrics of a shard's microbatches, `[M, number of metrics]`."""
    return np.array([list(part.values()) for part in metrics], np.float64)


def summed_metrics(names: Sequence[str], parts: Sequence[np.ndarray]) -> Metrics:
    """Return the sums over the microbatches of all shards, added in their order."""
    columns = np.concatenate(parts).T.tolist()
    return {name: sum(column) for name, column in zip(names, columns, strict=True)}
