"""The learner's network: live parameters that change, and frozen ones to evaluate."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch's own annotations are incomplete)

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.stacked_rows import Observations, in_one_piece
from drumline.functional.products import quicken
from drumline.policies.actor_critic import build_network, takes_channels_last
from drumline.policies.network_spec import NetworkSpec, is_own
from drumline.policies.vector import FlatParameters

T = TypeVar("T")


class Evaluated(NamedTuple):
    """A batch through the network: outputs `[N, O]` and values `[N]`, float32."""

    outputs: Tensor
    values: Tensor


class LearnedNetwork:
    """One network, twice: `live` is learned, `frozen` has the parameters of the acting policy."""

    def __init__(
        self,
        spec: NetworkSpec,
        initial: np.ndarray,
        *,
        precision: Literal["fp32", "bf16"],
        microbatches: Microbatches,
        device: torch.device | None = None,
    ):
        self.spec = spec
        self.device = device
        """Device of parameters, gradients and observations; None: the host's own path."""
        self._precision = precision
        network = self._made()
        self._channels_last = device is None and takes_channels_last(network, spec)
        self.live = FlatParameters(network, device=device)
        self.frozen = FlatParameters(self._made(), device=device)
        self.live.load(initial)
        self._microbatches = microbatches
        self._lanes: dict[FlatParameters, list[FlatParameters]] = {}

    def forward(self, parameters: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate a batch at `live` or `frozen`, with gradients if they are enabled."""
        with self._autocast():
            outputs, values = parameters.module(self._inputs(observations))
        return Evaluated(outputs.float(), values.float())

    def evaluate(self, parameters: FlatParameters, observations: Observations) -> Evaluated:
        """Evaluate any number of rows without gradients, a microbatch at a time.

        The host gets the results, wherever the network is.
        """

        @torch.no_grad()  # set within each thread, because torch's modes belong to a thread
        def work(lane: int, rows: slice) -> Evaluated:
            return self.forward(parameters, observations[rows])

        parts = self._microbatches.results(work, self.slices(len(observations)))
        if not parts:
            return Evaluated(torch.zeros(0, self.spec.head.output_size), torch.zeros(0))
        return Evaluated(
            torch.cat([p.outputs for p in parts]).cpu(), torch.cat([p.values for p in parts]).cpu()
        )

    def accumulate(
        self, at: FlatParameters, rows: int, passes: Callable[[FlatParameters, slice], T]
    ) -> Iterator[T]:
        """Set the gradient of `at` to the sum of its microbatches' gradients, in their order.

        `passes` goes forward and backward through some rows with the given module. The module has
        the values of `at`, and a gradient that no other thread changes meanwhile. Yields the
        results of `passes`.
        """
        lanes = self._lanes_of(at)

        def work(lane: int, part: slice) -> T:
            if lane:
                lanes[lane].gradient.zero_()
            return passes(lanes[lane], part)

        at.gradient.zero_()
        for together in self._microbatches.rounds(work, self.slices(rows)):
            for lane in lanes[1 : len(together)]:
                at.gradient.add_(lane.gradient)
            yield from together

    def each(
        self, at: FlatParameters, rows: int, passes: Callable[[FlatParameters, slice], T]
    ) -> list[T]:
        """Return the results of `passes` for each microbatch, on the lanes of `accumulate`."""
        lanes = self._lanes_of(at)
        return self._microbatches.results(
            lambda lane, part: passes(lanes[lane], part), self.slices(rows)
        )

    def slices(self, rows: int) -> list[slice]:
        """Return the microbatches of a batch."""
        return self._microbatches.slices(rows)

    def _lanes_of(self, at: FlatParameters) -> list[FlatParameters]:
        """Return `at` and others with its values, one for each microbatch that runs at once."""
        lanes = self._lanes.setdefault(at, [at])
        while len(lanes) < self._microbatches.threads:
            lanes.append(FlatParameters(self._made(), at.values, device=self.device))
        return lanes

    def _made(self) -> nn.Module:
        """Return the network; its large products are made as the host does them best."""
        network = build_network(self.spec)
        plain = self.device is None and self._precision == "fp32" and not is_own(self.spec.network)
        return quicken(network) if plain else network

    def _inputs(self, observations: Observations) -> Tensor:
        observations = in_one_piece(observations)
        if observations.dtype != torch.uint8:
            # A network of the user's may write into its input: not into the interval's data.
            return observations.clone() if is_own(self.spec.network) else observations
        kind = torch.bfloat16 if self._precision == "bf16" else torch.float32
        if self._channels_last:
            # Converting bytes to channels-last is two to five times as fast as converting the wider
            # type.
            observations = observations.contiguous(memory_format=torch.channels_last)
        return observations.to(kind).mul_(1.0 / 255.0)

    def _autocast(self) -> AbstractContextManager[object]:
        if self._precision == "bf16":
            # autocast's cache of cast weights belongs to the process, whose threads may be in a
            # pass too
            return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)
        return nullcontext()


Pause = Callable[[], None]
"""Hook that is called between gradient computations, in which the driver serves its crew."""
