"""Rollout and learning at the same time, exactly `lag` policies apart (HTS-RL, DESIGN §6).

With lag 1, version k + 1 comes from the data of interval k − 1 while interval k is collected:

    interval 0 acts with θ₀, interval 1 with θ₁ = θ₀
    data of interval 0 → θ₂, data of interval 1 → θ₃, … data of interval k → θ_{k+2}

An environment begins interval k when its interval k − 1 is full and version k is out (sliding
barrier), or when everybody's interval k − 1 is full as well (the paper's hard barrier). Either way
the storage k mod 2 has been read by then, because version k comes from the interval that it held.
With lag 0 the data of interval k give θ_{k+1}: nothing overlaps, every update is on-policy.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from drumline.protocols import Crew, Learner
from drumline.types import Metrics, Rollout


class Storage(Protocol):
    """Where the data of an interval are, once it is full."""

    def read(self, interval: int) -> Rollout:
        """Return one interval, in place."""
        ...


@dataclass(frozen=True)
class RotationPlan:
    """What is fixed for all intervals of a run."""

    alpha: int
    intervals: int
    lag: Literal[0, 1] = 1
    barrier: Literal["sliding", "hard"] = "sliding"


@dataclass(frozen=True)
class Interval:
    """One interval that has been learned from; `update` counts the updates, this one included."""

    update: int
    version: int
    """The version that this update has made."""
    rollout: Rollout
    """Read it before going on: its storage is written again afterwards."""
    metrics: Metrics
    waited_seconds: float
    update_began: float
    update_ended: float
    update_core_seconds: float


def overlapped(
    learner: Learner,
    crew: Crew,
    storage: Storage,
    plan: RotationPlan,
    *,
    first: int = 0,
    before_release: Callable[[Interval], None] = lambda interval: None,
) -> Iterator[Interval]:
    """Yield each interval from `first` on after its update; the consumer may stop at any yield.

    `before_release` sees an interval while nobody may write its storage; at the yield the roles
    are at work on what follows. Versions `first` … `first + lag` are published and released by
    the caller.
    """
    exchange = crew.exchange
    for k in range(first, plan.intervals):
        began = time.perf_counter()
        crew.wait(lambda k=k: exchange.all_finished((k + 1) * plan.alpha))
        if plan.barrier == "hard" and plan.lag:
            exchange.release(k + 1)
        update_began, cpu_began = time.perf_counter(), time.process_time()
        rollout = storage.read(k)
        metrics = learner.update(rollout, crew.published(k))
        version = k + 1 + plan.lag
        finished = Interval(
            update=k + 1,
            version=version,
            rollout=rollout,
            metrics=metrics,
            waited_seconds=update_began - began,
            update_began=update_began,
            update_ended=time.perf_counter(),
            update_core_seconds=time.process_time() - cpu_began,
        )
        before_release(finished)
        crew.publish(version, learner.published())
        if plan.barrier == "sliding" or not plan.lag:
            exchange.release(version)
        yield finished
