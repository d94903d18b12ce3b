"""Replicas of a search on nodes: what the driver tells them, and the update that each makes.

A search's update follows from the fitness, return and length of every member, by index, from the
moments of the members that contribute some, and from noise that its keys name (Salimans et al.
2017, Algorithm 2). So every node that is told them has the driver's next parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from drumline.policies.spec import REFERENCE
from drumline.protocols import GenerationStrategy
from drumline.runs.scalar_log import decoded, encoded, moments_bytes
from drumline.runtime.cluster.replicas import Record, UpdateLog
from drumline.tasks import Evaluation
from drumline.training.told_generations import results_of, told_of
from drumline.types import Metrics, State

FIXED = (REFERENCE,)
"""Shared arrays, never changed by an update, that a policy needs beside its parameters."""


class SearchReplica:
    """A `Replica` around a strategy of its own."""

    def __init__(
        self, strategy: GenerationStrategy, fixed: Mapping[str, np.ndarray] = MappingProxyType({})
    ):
        """`fixed`: memory of this node's workers that a state fills."""
        self._strategy = strategy
        self._fixed = fixed

    def load(self, state: State) -> None:
        """Take over the state of a version, and the arrays that no update changes."""
        self._strategy.load(state)
        for name, array in self._fixed.items():
            array[:] = state.tensor(name, like=array)

    def apply(self, record: bytes) -> None:
        """Make the update of a told generation."""
        for told in decoded(record):
            self._strategy.tell(results_of(self._strategy, told))

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays for this node's workers."""
        return self._strategy.published()


class TellingStrategy:
    """A strategy that hands what it is told to a log before its own update.

    So the nodes make theirs at the same time.
    """

    def __init__(
        self,
        strategy: GenerationStrategy,
        log: UpdateLog,
        state: Callable[[], State] | None = None,
    ):
        """`state`: all that a replica needs, where that is more than the strategy's."""
        self._strategy = strategy
        self._log = log
        self._whole_state = strategy.state if state is None else state

    def ask(self, count: int) -> Sequence[Any]:
        """Return the next tasks."""
        return self._strategy.ask(count)

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        """Tell the log, then the strategy."""
        told = told_of(self._log.version, sorted(results, key=attrgetter("member")))
        self._log.append(Record(encoded(told), moments_bytes(told)))
        metrics = self._strategy.tell(results)
        if self._log.is_long:
            self._log.renew(self._log.version, self._whole_state())
        return metrics

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the arrays for workers."""
        return self._strategy.published()

    def state(self) -> State:
        """Return all learned state."""
        return self._strategy.state()

    def load(self, state: State) -> None:
        """Refused: the replicas would not follow."""
        raise RuntimeError("a search with replicas is loaded before its log is made")
