"""Lockstep: environments take each step together and the learner waits for all (A2C, PPO).

    t   every environment stands before step t → one forward pass for all → every environment steps
    k   after alpha such steps: version k + 1 from the data of interval k, while no actor acts

With two `turns` the environments form two halves: the driver answers one half while the other steps
(the alternating sampler of rlpyt). A half waits for its own environments alone.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from drumline.crew_protocols import Crew
from drumline.protocols import Learner
from drumline.schedules.intervals import Interval, RotationPlan, Storage, learned_from


def lockstep(
    learner: Learner,
    crew: Crew,
    storage: Storage,
    plan: RotationPlan,
    *,
    turns: Sequence[Any],
    answer: Callable[[Any], bool],
    first: int = 0,
    before_release: Callable[[Interval], None] = lambda interval: None,
) -> Iterator[Interval]:
    """Yield each interval from `first` on after its update; the consumer may stop at any yield.

    `answer` serves the environments of one of the `turns` together. The caller has published and
    released version `first`.
    """
    exchange = crew.exchange
    for k in range(first, plan.intervals):
        began = time.perf_counter()
        goal = (k + 1) * plan.alpha
        # Steps are not counted here: an environment of a replaced executor may be one step behind.
        while not exchange.all_finished(goal):
            for turn in turns:
                crew.wait(lambda turn=turn, goal=goal: exchange.standing(turn, goal))
                answer(turn)
        rollout, behavior = storage.read(k), crew.published(k)
        finished = learned_from(
            rollout, learner, behavior, update=k + 1, version=k + 1, began=began
        )
        before_release(finished)
        crew.publish(k + 1, learner.published())
        exchange.release(plan.begun(k + 1))
        yield finished
