"""Overlapped: rollout and learning at the same time, exactly `lag` policies apart (HTS-RL).

With lag 1, version k + 1 comes from the data of interval k − 1 while interval k is collected:

    interval 0 acts with θ₀, interval 1 with θ₁ = θ₀
    data of interval 0 → θ₂, data of interval 1 → θ₃, … data of interval k → θ_{k+2}

An environment begins interval k when its own interval k − 1 is full and version k is published
(sliding barrier). With the paper's hard barrier the intervals k − 1 of all environments must be
full. Under both barriers the learner has read storage k mod 2 by then, because version k comes from
the interval in that storage. With lag 0, the data of interval k give θ_{k+1}: nothing overlaps, and
every update is on-policy.
"""

import time
from collections.abc import Callable, Iterator

from drumline.crew_protocols import Crew
from drumline.protocols import Learner
from drumline.schedules.intervals import Interval, RotationPlan, Storage, learned_from


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

    `before_release` sees an interval before its storage may be written again. At the yield the
    roles already work on later intervals of the plan. The caller has published and released
    versions `first` … `first + lag`.
    """
    exchange = crew.exchange
    for k in range(first, plan.intervals):
        began = time.perf_counter()
        crew.wait(lambda k=k: exchange.all_finished((k + 1) * plan.alpha))
        if plan.barrier == "hard" and plan.lag:
            exchange.release(plan.begun(k + 1))
        version = k + 1 + plan.lag
        rollout, behavior = storage.read(k), crew.published(k)
        finished = learned_from(
            rollout, learner, behavior, update=k + 1, version=version, began=began
        )
        before_release(finished)
        crew.publish(version, learner.published())
        if plan.barrier == "sliding" or not plan.lag:
            exchange.release(plan.begun(version))
        yield finished
