"""Course of a run from update to update: a schedule and the state that a checkpoint needs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from drumline.buffers.rollout import RolloutStorage
from drumline.crew_protocols import Crew
from drumline.envs.lanes import LaneHistory
from drumline.protocols import Whereabouts
from drumline.schedules.intervals import Interval
from drumline.training.episode_tally import EpisodeTally
from drumline.types import Metrics, Rollout, State


class Course(Protocol):
    """A schedule and the state that it needs between two updates."""

    tally: EpisodeTally

    def begin(self, crew: Any, first: int) -> None:
        """Publish the versions before update `first + 1` and release the intervals that use
        them."""
        ...

    def updates(
        self, crew: Crew, storage: RolloutStorage, first: int
    ) -> Iterator[tuple[Interval, Metrics]]:
        """Yield each update from `first + 1` on, with metrics of the schedule's own."""
        ...

    def rehearse(self, whereabouts: Whereabouts) -> None:
        """Check that the environment repeats itself, after the first update under a promise."""
        ...

    def history(self, environment: int, steps: int, read: Callable[[int], Rollout]) -> LaneHistory:
        """Return one environment's history up to `steps`; `read` reads the storages."""
        ...

    def state(self) -> State:
        """Return the checkpoint's state besides the learner's."""
        ...

    def load(self, state: State, names: list[str]) -> None:
        """Take over a state; published arrays are called `names`."""
        ...


def published_copy(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of published arrays, which are overwritten later."""
    return {name: np.array(array) for name, array in arrays.items()}
