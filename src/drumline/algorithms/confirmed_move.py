"""A mean rule that takes a move back: full moves, confirmed by the new mean's evaluations."""

from typing import NamedTuple

import numpy as np

from drumline.algorithms.distribution_rules import Arrival, MeanStep
from drumline.types import State


class MeanReturns(NamedTuple):
    """Returns of a mean in its evaluations."""

    since: int
    """Individuals told before it became the mean."""
    total: float
    evaluations: int

    @property
    def average(self) -> float:
        """Return the average over the evaluations."""
        return self.total / self.evaluations

    def added(self, mean_return: float) -> "MeanReturns":
        """Return these returns and one more."""
        return self._replace(total=self.total + mean_return, evaluations=self.evaluations + 1)

    def counters(self, name: str) -> dict[str, int | float]:
        """Return the numbers under a name."""
        return {f"{name}_mean_{field}": value for field, value in self._asdict().items()}

    @classmethod
    def of(cls, state: State, name: str) -> "MeanReturns":
        """Return the numbers of a state under a name."""
        since, total, count = (state.counter(f"{name}_mean_{field}") for field in cls._fields)
        return cls(int(since), float(total), int(count))


class ConfirmedMove:
    """μ ← z if f_z is above μ's average return; back to the earlier μ if z's is below that one's.

    Ours, beside the (1+1)-ES: one lucky episode moves its mean all the way, for good. The average
    is over all evaluations of a mean; until the first, that of a new one is f_z.
    """

    def __init__(self) -> None:
        self._newest = MeanReturns(0, 0.0, 0)
        self._fitness = 0.0
        """f_z by which it became the mean."""
        self._earlier: MeanReturns | None = None
        self._until = 0
        """Individuals told when the earlier mean was left."""
        self._earlier_mean = np.empty(0, np.float32)

    def __call__(self, arrival: Arrival) -> MeanStep:
        """Return the individual, the mean, or the mean before it."""
        self._count(arrival.mean_version, arrival.mean_fitness)
        mean, newest, earlier = arrival.mean, self._newest, self._earlier
        if earlier is not None and newest.evaluations and newest.average < earlier.average:
            mean, self._earlier = self._earlier_mean, None
            newest = self._newest = earlier._replace(since=arrival.tells + 1)
        standing = newest.average if newest.evaluations else self._fitness
        if not arrival.fitness > standing:
            return MeanStep(mean.copy(), 0.0)
        if newest.evaluations:
            self._earlier, self._earlier_mean = newest, mean.copy()
            self._until = arrival.tells
        self._newest, self._fitness = MeanReturns(arrival.tells + 1, 0.0, 0), arrival.fitness
        return MeanStep(arrival.vector.copy(), 1.0)

    def state(self) -> State:
        """Return both means' returns, and the earlier mean."""
        counters = {"newest_mean_fitness": self._fitness, **self._newest.counters("newest")}
        if self._earlier is None:
            return State({}, counters)
        counters |= {"earlier_mean_until": self._until, **self._earlier.counters("earlier")}
        return State({"earlier_mean": self._earlier_mean.copy()}, counters)

    def load(self, state: State) -> None:
        """Load both means' returns, and the earlier mean."""
        self._fitness = float(state.counter("newest_mean_fitness"))
        self._newest = MeanReturns.of(state, "newest")
        self._earlier = None
        if "earlier_mean" in state.tensors:
            self._earlier = MeanReturns.of(state, "earlier")
            self._until = int(state.counter("earlier_mean_until"))
            self._earlier_mean = state.tensor("earlier_mean")

    def _count(self, version: int, mean_return: float) -> None:
        """Add an evaluation to the mean that was evaluated, if it is one of the two."""
        if version >= self._newest.since:
            self._newest = self._newest.added(mean_return)
        elif self._earlier is not None and self._earlier.since <= version <= self._until:
            self._earlier = self._earlier.added(mean_return)
