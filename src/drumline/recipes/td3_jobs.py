"""Factory of a worker's gradient steps: it imports torch only when it is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from drumline.buffers.replay import Replay, ReplayShape

if TYPE_CHECKING:
    from drumline.algorithms.td3 import TD3Jobs
    from drumline.algorithms.td3_steps import TD3Settings


@dataclass(frozen=True)
class TD3JobsSpec:
    """Shared arrays → TD3's jobs over the replay in them, on one thread."""

    settings: "Mapping[str, object]"
    """Arguments of `TD3Settings`: the class itself would import torch."""
    shape: ReplayShape

    def __call__(self, shared: Mapping[str, np.ndarray]) -> "TD3Jobs":
        """Build the jobs."""

        from drumline.algorithms.td3 import TD3Jobs
        from drumline.functional.torch_threads import limit_torch
        from drumline.recipes.td3_learner import draws_of

        limit_torch(1)
        settings = self.made()
        return TD3Jobs(settings, draws_of(settings, Replay(self.shape, shared)))

    def made(self) -> "TD3Settings":
        """Return the settings."""
        from drumline.algorithms.td3_steps import TD3Settings

        return TD3Settings(**self.settings)  # pyright: ignore[reportArgumentType]
