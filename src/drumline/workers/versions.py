"""Forward passes with whichever published version is asked for."""

from collections.abc import Callable, Mapping

import numpy as np

from drumline.policies.inference import Inference

_LIVE = 2  # acting sees at most two versions at a time, whatever the barrier


class VersionedInference:
    """One inference per live version; a version is loaded when it is first asked for."""

    def __init__(
        self,
        build: Callable[[], Inference],
        published: Callable[[int], Mapping[str, np.ndarray]],
    ):
        self._published = published
        self._inferences = [build() for _ in range(_LIVE)]
        self._versions = [-1] * _LIVE

    def __call__(self, version: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs `[B, O]` and values `[B]` by `version`, valid until the next call."""
        place = version % _LIVE
        if self._versions[place] != version:
            arrays = self._published(version)
            self._inferences[place].load(arrays)
            self._versions[place] = version
        return self._inferences[place](observations)
