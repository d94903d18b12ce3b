"""Forward passes with the version that an interval asks for, or with the newest version."""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from drumline.crew_protocols import RoleContext
from drumline.policies.inference import Inference

_LIVE = 2  # under both barriers, roles act with at most two versions at a time


class Forward(Protocol):
    """Forward passes with published versions."""

    def wanted(self, intervals: np.ndarray) -> np.ndarray:
        """Return the version to act with in each of these intervals, as of now."""
        ...

    def __call__(self, version: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]` by a wanted version, until the next call."""
        ...


def forward_for(build: Callable[[], Inference], context: RoleContext, *, newest: bool) -> Forward:
    """Return the forward pass of a role, by interval number or with the newest version."""
    if newest:
        return NewestInference(build, context.newest, context.copy_of_newest)
    return VersionedInference(build, context.published)


class NewestInference:
    """One inference that is loaded again for every newer version: free running."""

    def __init__(
        self,
        build: Callable[[], Inference],
        newest: Callable[[], int],
        copy_of_newest: Callable[[], tuple[int, Mapping[str, np.ndarray]]],
    ):
        self._inference = build()
        self._newest = newest
        self._copy_of_newest = copy_of_newest
        self._version = -1

    def wanted(self, intervals: np.ndarray) -> np.ndarray:
        """Return the newest version for every interval, after loading it."""
        if self._newest() != self._version:
            self._version, arrays = self._copy_of_newest()
            self._inference.load(arrays)
        return np.full(len(intervals), self._version)

    def __call__(self, version: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]` by the version of the last `wanted` call."""
        return self._inference(observations)


class VersionedInference:
    """One inference per live version; a version is loaded at its first use."""

    def __init__(
        self,
        build: Callable[[], Inference],
        published: Callable[[int], Mapping[str, np.ndarray]],
    ):
        self._published = published
        self._inferences = [build() for _ in range(_LIVE)]
        self._versions = [-1] * _LIVE

    def wanted(self, intervals: np.ndarray) -> np.ndarray:
        """Return the versions: version k for interval k."""
        return intervals

    def __call__(self, version: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]` by `version`, valid until the next call."""
        place = version % _LIVE
        if self._versions[place] != version:
            arrays = self._published(version)
            self._inferences[place].load(arrays)
            self._versions[place] = version
        return self._inferences[place](observations)
