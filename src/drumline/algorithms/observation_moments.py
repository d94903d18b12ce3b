"""Running moments of observations: what they are, what is published, what is saved."""

from collections.abc import Callable, Iterable

import numpy as np

from drumline.functional.moments import fold, initial_moments, inverse_std
from drumline.tasks import Evaluation
from drumline.types import Moments, State


class ObservationMoments:
    """Folds what chosen rollouts saw, by member index, in float64; never decays (spec §1.8)."""

    def __init__(
        self,
        size: int,
        inverse_std: Callable[[Moments], np.ndarray] = inverse_std,
        pseudo_count: float = 1e-2,
    ):
        """`pseudo_count`: how many observations of mean 0 and variance 1 it begins with."""
        self._moments = initial_moments(size, pseudo_count)
        self._inverse_std = inverse_std

    @property
    def count(self) -> float:
        """Return how many observations have been folded, the initial weight included."""
        return self._moments.count

    def fold(self, results: Iterable[Evaluation]) -> None:
        """Fold the results' moments in the order given: by member."""
        parts = [result.moments for result in results if result.moments is not None]
        self._moments = fold(self._moments, parts)

    def add(self, part: Moments) -> None:
        """Fold one more part; the order of the calls is part of the bits."""
        self._moments = fold(self._moments, [part])

    def published(self) -> dict[str, np.ndarray]:
        """Return what a policy needs to normalise."""
        return {
            "observation_mean": self._moments.mean.copy(),
            "observation_inverse_std": self._inverse_std(self._moments),
        }

    def state(self) -> State:
        """Return mean, squares and count."""
        return State(
            {
                "observation_mean": self._moments.mean.copy(),
                "observation_squares": self._moments.squares.copy(),
            },
            {"observation_count": self._moments.count},
        )

    def load(self, state: State) -> None:
        """Take over mean, squares and count."""
        self._moments = Moments(
            float(state.counter("observation_count")),
            state.tensor("observation_mean", like=self._moments.mean),
            state.tensor("observation_squares", like=self._moments.squares),
        )
