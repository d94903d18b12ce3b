"""The replay of a run that keeps no transitions."""

from collections.abc import Callable

import numpy as np

from drumline.types import Metrics, State


class NoReplay:
    """Stands in for `QueuedReplay`: it has no segments and no state."""

    def fingerprint(self) -> dict[str, np.ndarray]:
        """Return nothing that a fingerprint covers."""
        return {}

    def metrics(self) -> Metrics:
        """Return no columns."""
        return {}

    def segments(self, oldest: int | None) -> list[str]:
        """Return no segments."""
        return []

    def state(self, oldest: int | None) -> State:
        """Return no state."""
        return State({}, {})

    def load(self, state: State, read: Callable[[str], bytes], oldest: int | None) -> None:
        """Do nothing."""
