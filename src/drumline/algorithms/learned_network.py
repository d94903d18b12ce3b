"""The learner's network: live parameters that change, and frozen ones to evaluate elsewhere."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from drumline.algorithms.stacked_rows import Observations, in_one_piece
from drumline.policies.actor_critic import build_network
from drumline.policies.network_spec import NetworkSpec
from drumline.policies.vector import FlatParameters


class Evaluated(NamedTuple):
    """A batch through the network: outputs `[N, O]` and values `[N]`, float32."""

    outputs: Tensor
    values: Tensor


class LearnedNetwork:
    """One network twice over one spec: `live` is learned, `frozen` holds the behaviour's."""

    def __init__(
        self,
        spec: NetworkSpec,
        initial: np.ndarray,
        *,
        precision: Literal["fp32", "bf16"],
        rows_at_once: int,
    ):
        self.spec = spec
        self.live = FlatParameters(build_network(spec))
        self.frozen = FlatParameters(build_network(spec))
        self.live.load(initial)
        self._precision = precision
        self._rows_at_once = rows_at_once

    def forward(self, parameters: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate a batch at `live` or `frozen`, with gradients if they are enabled."""
        with self._autocast():
            outputs, values = parameters.module(self._inputs(observations))
        return Evaluated(outputs.float(), values.float())

    @torch.no_grad()
    def evaluate(self, parameters: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate any number of rows without gradients, some at a time."""
        if not len(observations):
            return Evaluated(torch.zeros(0, self.spec.head.output_size), torch.zeros(0))
        parts = [
            self.forward(parameters, observations[rows]) for rows in self.slices(len(observations))
        ]
        return Evaluated(
            torch.cat([p.outputs for p in parts]), torch.cat([p.values for p in parts])
        )

    def slices(self, rows: int) -> Iterator[slice]:
        """Return slices that a single forward and backward pass should take at once."""
        for start in range(0, rows, self._rows_at_once):
            yield slice(start, min(start + self._rows_at_once, rows))

    def _inputs(self, observations: Observations) -> Tensor:
        observations = in_one_piece(observations)
        if observations.dtype != torch.uint8:
            return observations
        kind = torch.bfloat16 if self._precision == "bf16" else torch.float32
        images = observations.to(kind, memory_format=torch.channels_last)
        return images.mul_(1.0 / 255.0)

    def _autocast(self) -> AbstractContextManager[object]:
        if self._precision == "bf16":
            return torch.autocast("cpu", torch.bfloat16)
        return nullcontext()


Pause = Callable[[], None]
"""Called between gradient computations: the driver looks after its crew."""
