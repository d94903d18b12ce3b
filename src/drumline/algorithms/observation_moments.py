"""Running moments of observations: their sum, their published form and their saved form."""

from collections.abc import Callable, Iterable

import numpy as np

from drumline.functional.moments import fold, initial_moments, inverse_std
from drumline.tasks import Evaluation
from drumline.types import Moments, State


class ObservationMoments:
    """Moments of chosen rollouts' observations, folded by member in float64, without decay."""

    def __init__(
        self,
        size: int,
        inverse_std: Callable[[Moments], np.ndarray] = inverse_std,
        pseudo_count: float = 1e-2,
        first: Moments | None = None,
    ):
        """`pseudo_count`: weight of the initial moments (mean 0, variance 1), in observations.

        `first`: moments to go on from in their place.
        """
        self._moments = initial_moments(size, pseudo_count) if first is None else first
        self._inverse_std = inverse_std

    @property
    def count(self) -> float:
        """Return the number of folded observations, the initial weight included."""
        return self._moments.count

    def fold(self, results: Iterable[Evaluation]) -> None:
        """Fold the results' moments in the order given, which must be that of the members."""
        parts = [result.moments for result in results if result.moments is not None]
        self._moments = fold(self._moments, parts)

    def add(self, parts: Iterable[Moments]) -> None:
        """Fold more parts; their order influences the bits."""
        self._moments = fold(self._moments, parts)

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays with which a policy normalises observations."""
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
        """Load mean, squares and count."""
        self._moments = Moments(
            float(state.counter("observation_count")),
            state.tensor("observation_mean", like=self._moments.mean),
            state.tensor("observation_squares", like=self._moments.squares),
        )
