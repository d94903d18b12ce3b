"""What a run of a steady-state method needs of a population."""

from typing import Protocol

import numpy as np

from drumline.protocols import Population
from drumline.types import EpisodeRow, Metrics, Snapshot, State


class LivingPopulation(Population, Protocol):
    """A `Population` with what a run writes down of it."""

    unsaved: list[tuple[str, bytes]]
    """What entered the replay since somebody took it: (segment, bytes to append to it)."""
    in_generations: bool
    """Whether an update is a generation: `settled` leaves out what the next one has asked."""

    @property
    def env_steps_counted(self) -> int:
        """Return the env steps of training."""
        ...

    @property
    def env_steps_beside(self) -> int:
        """Return the env steps of the mean's evaluations."""
        ...

    @property
    def parameters(self) -> np.ndarray:
        """Return the actor that the population stands for."""
        ...

    def finished(self) -> list[EpisodeRow]:
        """Return, once, the episodes of the update that the latest event has ended, if any."""
        ...

    def metrics(self, told: Metrics) -> Metrics:
        """Return an update's row, the same names in every one, from what its tell returned."""
        ...

    def learned(self) -> dict[str, np.ndarray]:
        """Return what a fingerprint covers besides the parameters."""
        ...

    def settled(self, snapshot: Snapshot) -> Snapshot | None:
        """Return what of the queue goes with `state`; None: that is as it was before the event."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that every version has."""
        ...

    def state(self) -> State:
        """Return everything that the queue does not hold, as of the latest settled event."""
        ...

    def load(self, state: State) -> None:
        """Take over a state."""
        ...
