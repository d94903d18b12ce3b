"""How a run goes from update to update: what is handed out, folded, and saved."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from drumline.buffers.rollout import RolloutStorage
from drumline.crew_protocols import Crew
from drumline.envs.lanes import LaneHistory
from drumline.schedules.intervals import Interval
from drumline.training.episode_tally import EpisodeTally
from drumline.types import Metrics, Rollout, State


class Course(Protocol):
    """A schedule with everything that a run must remember for it, between two updates."""

    tally: EpisodeTally

    def begin(self, crew: Any, first: int) -> None:
        """Publish the versions that exist before update `first + 1` and release what may start."""
        ...

    def updates(
        self, crew: Crew, storage: RolloutStorage, first: int
    ) -> Iterator[tuple[Interval, Metrics]]:
        """Yield each update from `first + 1` on, with metrics of the schedule's own."""
        ...

    def rehearse(self) -> None:
        """Check, after the first update of a run that promises, that its environment repeats."""
        ...

    def history(self, environment: int, steps: int, read: Callable[[int], Rollout]) -> LaneHistory:
        """Return how one environment came to `steps`; `read` gives what is in the storages."""
        ...

    def state(self) -> State:
        """Return what a checkpoint needs besides the learner's state."""
        ...

    def load(self, state: State, names: list[str]) -> None:
        """Take over a state; published arrays are called `names`."""
        ...


def published_copy(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies: what is published is overwritten."""
    return {name: np.array(array) for name, array in arrays.items()}
