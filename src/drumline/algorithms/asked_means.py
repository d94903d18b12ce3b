"""Means of a distribution that candidates were asked of and that have not been told yet."""

import numpy as np
from jaxtyping import Float32

from drumline.types import Individual, State


class AskedMeans:
    """Moves an individual that was asked of an older mean to where the newest one has gone.

    μ ← (1 − p) μ + p z takes back p of all that the mean moved between the ask of z and its tell,
    and a refined individual is told after those of several others. z + μ − μ_ask keeps what they
    did: it has the individual's own displacement, noise and gradient steps, from the newest mean.
    """

    def __init__(self, parameter_count: int):
        self._parameter_count = parameter_count
        self._means: dict[int, np.ndarray] = {}
        """Number of tells at an ask → the mean that was asked from."""
        self._living: dict[int, int] = {}

    def ask(self, tells: int, mean: Float32[np.ndarray, " P"], count: int) -> None:
        """Keep the mean for candidates that are asked after so many tells."""
        self._means[tells] = mean
        self._living[tells] = self._living.get(tells, 0) + count

    def told(
        self, individual: Individual, mean: Float32[np.ndarray, " P"]
    ) -> Float32[np.ndarray, " P"]:
        """Return z + μ − μ_ask; the mean of an ask is dropped with its last candidate."""
        if individual.version not in self._means:
            raise ValueError(
                f"individual {individual.index} says it was asked after {individual.version} "
                "tells; no candidate of that ask is left to be told"
            )
        asked = self._means[individual.version]
        self._living[individual.version] -= 1
        if not self._living[individual.version]:
            del self._means[individual.version], self._living[individual.version]
        return individual.vector + (mean - asked)

    def state(self) -> State:
        """Return copies of the means and how many candidates of each are to be told."""
        versions = sorted(self._means)
        means = [self._means[version] for version in versions]
        return State(
            {
                "asked_means": np.array(means, np.float32).reshape(-1, self._parameter_count),
                "asked_after": np.array(versions, np.int64),
                "asked_living": np.array([self._living[one] for one in versions], np.int64),
            },
            {},
        )

    def load(self, state: State) -> None:
        """Load a state."""
        versions = state.tensor("asked_after").tolist()
        self._means = dict(zip(versions, state.tensor("asked_means"), strict=True))
        self._living = dict(zip(versions, state.tensor("asked_living").tolist(), strict=True))
