"""Updates of a diagonal Gaussian by an individual: rules for the mean and for the variance.

Lee et al. 2020 (arXiv 2012.05417). A rule sees one arrival and the archive, which already has it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from drumline.algorithms.archive import Archive
from drumline.functional.mean_updates import StepSize, cem_weights, moved_mean, weighted_mean
from drumline.functional.ranking import spread_scale
from drumline.functional.variance_updates import (
    SMALLEST_STEP,
    VARIANCE_FLOOR,
    decayed_damp,
    elite_variance,
    one_fifth_factor,
    scaled_variance,
    welford_variance,
)
from drumline.types import State


class Arrival(NamedTuple):
    """An individual beside the distribution at its arrival."""

    vector: np.ndarray
    fitness: float
    mean_fitness: float
    mean: np.ndarray
    variance: np.ndarray
    archive: Archive
    tells: int = 0
    """Individuals told before this one."""
    mean_version: int = 0
    """The same at the ask of the evaluation that gave `mean_fitness`."""


class MeanStep(NamedTuple):
    """The new mean, and p: the share of the way to the rule's target."""

    mean: np.ndarray
    step_size: float


@runtime_checkable
class MeanRule(Protocol):
    """A rule that moves the mean; may have memory."""

    def __call__(self, arrival: Arrival) -> MeanStep:
        """Return the new mean."""
        ...

    def state(self) -> State:
        """Return a copy of the memory."""
        ...

    def load(self, state: State) -> None:
        """Load a memory."""
        ...


class Forgetful:
    """A rule without memory."""

    def state(self) -> State:
        """Return an empty state."""
        return State()

    def load(self, state: State) -> None:
        """Do nothing."""


@runtime_checkable
class VarianceRule(Protocol):
    """A rule that adapts the variance after a move of the mean by `step_size`; may have memory."""

    def __call__(self, arrival: Arrival, step_size: float) -> Float32[np.ndarray, " P"]:
        """Return the new variance."""
        ...

    def state(self) -> State:
        """Return a copy of the memory."""
        ...

    def load(self, state: State) -> None:
        """Load a memory."""
        ...


class PartialMove(Forgetful):
    """μ ← (1 − p) μ + p z, with p from both fitnesses."""

    def __init__(self, step_size: StepSize):
        self._step_size = step_size
        step_size(0.0, 0.0)  # raises here for a bad number, and not only after the warm-up

    def __call__(self, arrival: Arrival) -> MeanStep:
        """Return the mean moved by p."""
        return _moved(arrival, float(self._step_size(arrival.fitness, arrival.mean_fitness)))


class SpreadMove:
    """μ ← (1 − p) μ + p z with r = `multiple` · std of the last `window` individuals' returns.

    Ours: a range that fits the returns of the end is so wide for those of the beginning that good
    and bad individuals move the mean alike. `fallback` is r while all returns are equal.
    """

    def __init__(
        self,
        step_size: Callable[..., float],
        *,
        multiple: float,
        fallback: float,
        window: int = 20,
    ):
        if not (multiple > 0.0 and math.isfinite(multiple)):
            raise ValueError(f"the multiple of the spread must be above 0, got {multiple}")
        if window < 2:
            raise ValueError(f"the window of the spread must be at least 2, got {window}")
        step_size(0.0, 0.0, fitness_range=fallback)  # raises here for a bad number
        self._step_size = step_size
        self._multiple = multiple
        self._fallback = fallback
        self._returns = np.zeros(window)
        self._count = 0

    def __call__(self, arrival: Arrival) -> MeanStep:
        """Return the mean moved by p; the arrival's own return is part of the spread."""
        self._returns[self._count % self._returns.size] = arrival.fitness
        self._count += 1
        seen = self._returns[: self._count]
        equal = np.all(seen == seen[0])  # their std is often 1e-17
        fitness_range = self._fallback if equal else self._multiple * _spread(seen)
        step = self._step_size(arrival.fitness, arrival.mean_fitness, fitness_range=fitness_range)
        return _moved(arrival, float(step))

    def state(self) -> State:
        """Return the window and the number of individuals so far."""
        return State({"returns_window": self._returns.copy()}, {"returns_count": self._count})

    def load(self, state: State) -> None:
        """Load a window."""
        self._returns = state.tensor("returns_window", like=self._returns)
        self._count = int(state.counter("returns_count"))


def _spread(values: np.ndarray) -> float:
    scale = spread_scale(values)
    return scale * float(np.std(values / scale))


def _moved(arrival: Arrival, step_size: float) -> MeanStep:
    if not -1.0 <= step_size <= 1.0:
        raise ValueError(
            f"the mean rule returned p = {step_size} for a fitness of {arrival.fitness} "
            f"against {arrival.mean_fitness}; p must lie in [-1, 1]"
        )
    return MeanStep(moved_mean(arrival.mean, arrival.vector, step_size), step_size)


class RankMove(Forgetful):
    """μ ← μ + (m − μ) / λ, m the weighted mean of the archive's K elites; waits for λ tells."""

    def __init__(self, elites: int = 5):
        self._weights = cem_weights(elites)

    def __call__(self, arrival: Arrival) -> MeanStep:
        """Return the mean moved towards the elites."""
        if not arrival.archive.full:
            return MeanStep(arrival.mean, 0.0)
        elites = arrival.archive.elites(self._weights.size)
        step_size = 1.0 / arrival.archive.capacity
        target = weighted_mean(elites, self._weights)
        return MeanStep(moved_mean(arrival.mean, target, step_size), step_size)


class WelfordVariance(Forgetful):
    """v ← v + ((z − μ)(z − μ') − v) / n(p), unchanged where p < 1e-3."""

    def __init__(self, sample_count: Callable[[float], float], *, floor: float = VARIANCE_FLOOR):
        self._sample_count = sample_count
        self._floor = floor

    def __call__(self, arrival: Arrival, step_size: float) -> Float32[np.ndarray, " P"]:
        """Return the variance after the individual."""
        if step_size < SMALLEST_STEP:
            return arrival.variance
        return welford_variance(
            arrival.variance,
            arrival.vector - arrival.mean,
            step_size,
            self._sample_count(step_size),
            floor=self._floor,
        )


class OneFifthVariance:
    """Rechenberg's success rule over the last `window` individuals; starts after `window`.

    The window slides, as in the paper; the released AES-RL code fills it only once.
    """

    def __init__(self, *, window: int = 10, factor: float = 0.99, floor: float = VARIANCE_FLOOR):
        if window < 1:
            raise ValueError(f"the success window must be at least 1, got {window}")
        if not 0.0 < factor < 1.0:
            raise ValueError(f"the success factor must be above 0 and below 1, got {factor}")
        self._successes = np.zeros(window, np.bool_)
        self._count = 0
        self._factor = factor
        self._floor = floor

    def __call__(self, arrival: Arrival, step_size: float) -> Float32[np.ndarray, " P"]:
        """Return the variance scaled by the factor of the success rate."""
        window = self._successes.size
        self._successes[self._count % window] = arrival.fitness > arrival.mean_fitness
        self._count += 1
        if self._count < window:
            return arrival.variance
        factor = one_fifth_factor(self._successes.tolist(), factor=self._factor)
        return scaled_variance(arrival.variance, factor, floor=self._floor)

    def state(self) -> State:
        """Return the window and the number of individuals so far."""
        return State({"successes": self._successes.copy()}, {"success_count": self._count})

    def load(self, state: State) -> None:
        """Load a window."""
        self._successes = state.tensor("successes", like=self._successes)
        self._count = int(state.counter("success_count"))


class RankVariance:
    """Σ w_i (z_i − μ)² / K + ε over the archive's elites; each arrival lets ε decay first."""

    def __init__(
        self,
        elites: int = 5,
        *,
        damp: float = 1e-3,
        damp_limit: float = 1e-5,
        damp_decay: float,
        divide_by_elites: bool = True,
    ):
        refuse_damp(damp, damp_limit, damp_decay)
        self._weights = cem_weights(elites)
        self._damp = damp
        self._limit = damp_limit
        self._decay = damp_decay
        self._divide = divide_by_elites

    def __call__(self, arrival: Arrival, step_size: float) -> Float32[np.ndarray, " P"]:
        """Return the elites' variance about the mean before its move."""
        if not arrival.archive.full:
            return arrival.variance
        self._damp = decayed_damp(self._damp, self._limit, self._decay)
        elites = arrival.archive.elites(self._weights.size)
        return elite_variance(
            elites, self._weights, arrival.mean, self._damp, divide_by_elites=self._divide
        )

    def state(self) -> State:
        """Return ε."""
        return State({}, {"damp": self._damp})

    def load(self, state: State) -> None:
        """Load ε."""
        self._damp = float(state.counter("damp"))


def refuse_damp(damp: float, limit: float, decay: float) -> None:
    """Raise ValueError unless a decaying damp keeps every variance above 0."""
    if not (damp > 0.0 and limit > 0.0 and math.isfinite(damp + limit)):
        raise ValueError(f"damp and damp_limit must be above 0, got {damp} and {limit}")
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"damp_decay must be 0 to 1, got {decay}")
