"""Parts of schedules of whole intervals: the plan, the record of an update, and the update."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from drumline.protocols import Learner
from drumline.types import Metrics, Rollout


class Storage(Protocol):
    """Access to the data of a full interval."""

    def read(self, interval: int) -> Rollout:
        """Return the rollout of one interval, in place."""
        ...


@dataclass(frozen=True)
class RotationPlan:
    """Settings that stay constant for all intervals of a run."""

    alpha: int
    intervals: int
    lag: Literal[0, 1] = 1
    barrier: Literal["sliding", "hard"] = "sliding"

    def begun(self, interval: int) -> int:
        """Return the newest interval up to this one that the run has.

        No environment steps beyond the last one, whose data no update would learn from: it may have
        no more steps, and a layout would decide whether it was asked for one.
        """
        return min(interval, self.intervals - 1)


@dataclass(frozen=True)
class Interval:
    """An interval after its update; `update` counts the updates, this one included."""

    update: int
    version: int
    """Version of the parameters that this update has made."""
    rollout: Rollout
    """The interval's data, to be read at once: the storage is written again afterwards."""
    metrics: Metrics
    waited_seconds: float
    update_began: float
    update_ended: float
    update_core_seconds: float


def learned_from(
    rollout: Rollout,
    learner: Learner,
    behavior: Mapping[str, Any],
    *,
    update: int,
    version: int,
    began: float,
) -> Interval:
    """Return the record of updating to `version` from a rollout; waiting counts from `began`."""
    update_began, cpu_began = time.perf_counter(), time.process_time()
    metrics = learner.update(rollout, behavior)
    return Interval(
        update=update,
        version=version,
        rollout=rollout,
        metrics=metrics,
        waited_seconds=update_began - began,
        update_began=update_began,
        update_ended=time.perf_counter(),
        update_core_seconds=time.process_time() - cpu_began,
    )
