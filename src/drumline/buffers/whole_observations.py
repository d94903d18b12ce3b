"""WholeObservations: one observation per row, and the side list of truncated episodes."""

from typing import NamedTuple

import numpy as np

from drumline.types import StackedFrames

Layout = dict[str, tuple[tuple[int, ...], str]]
Index = int | slice | np.ndarray


class Finals(NamedTuple):
    """The truncated episodes of an interval, by environment and then by time."""

    steps: np.ndarray
    environments: np.ndarray
    observations: np.ndarray | StackedFrames


def whole_layout(
    storages: int,
    alpha: int,
    environments: int,
    observation: tuple[int, ...],
    dtype: str,
    truncations: int,
) -> Layout:
    """Return name → (shape, dtype) for observations of this shape."""
    cut = (storages, environments, truncations)
    return {
        "observations": ((storages, alpha + 1, environments, *observation), dtype),
        "final_counts": ((storages, environments), "<i4"),
        "final_steps": (cut, "<i4"),
        "final_observations": ((*cut, *observation), dtype),
    }


class WholeObservations:
    """Rows by (storage, t, environments): numbers, slices or index arrays."""

    def __init__(self, rows: np.ndarray, counts: np.ndarray, steps: np.ndarray, finals: np.ndarray):
        self._rows = rows
        self._counts = counts
        self._steps = steps
        self._finals = finals

    def begin(self, slot: int, environments: Index, observations: np.ndarray) -> None:
        """Store first observations; drop the truncations of two intervals ago."""
        self._counts[slot, environments] = 0
        self._rows[slot, 0, environments] = observations

    def cut(self, slot: int, t: int, environment: int, observation: np.ndarray) -> None:
        """Store the last observation of an episode that was truncated at step `t`."""
        count, room = int(self._counts[slot, environment]), self._steps.shape[2]
        if count == room:
            raise RuntimeError(
                f"environment {environment} was truncated more than {count} times within one "
                f"interval of {self._rows.shape[1] - 1} steps, and --truncations-per-interval "
                f"makes room for {room}: start the run again with more"
            )
        self._steps[slot, environment, count] = t
        self._finals[slot, environment, count] = observation
        self._counts[slot, environment] = count + 1

    def follow(
        self,
        slot: Index,
        t: "int | np.ndarray",
        environments: Index,
        observations: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Store the observations after step `t`."""
        self._rows[slot, t + 1, environments] = observations

    def recount(self, slot: int, environment: int, truncations: int) -> None:
        """Set the number of truncations: the last one may not have counted."""
        self._counts[slot, environment] = truncations

    def observed(self, slot: Index, t: Index, environments: Index) -> np.ndarray:
        """Return the observations of these rows; a view, unless there is an index array."""
        return self._rows[slot, t, environments]

    def read(self, slot: int) -> np.ndarray:
        """Return all rows `[T + 1, B, ...]` of a storage in place."""
        return self._rows[slot]

    def finals(self, slot: int, truncated: np.ndarray) -> Finals:
        """Return copies of the side list's observations."""
        kept = np.arange(self._steps.shape[2])[None, :] < self._counts[slot][:, None]
        steps, observations = self._steps[slot][kept], self._finals[slot][kept]
        return Finals(steps, np.nonzero(kept)[0], observations)
