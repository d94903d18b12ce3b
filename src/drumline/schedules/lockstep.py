"""Everybody takes each step together, and learning waits for all of them: the usual A2C and PPO.

    t   every environment stands before step t → one forward pass for all → every environment steps
    k   after alpha such steps: version k + 1 from the data of interval k, while nobody acts

With two `turns` the environments fall into halves, one of which is answered while the other steps
(the alternating sampler of rlpyt); a half waits for its own environments alone.
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

    `turns` are the environments that are answered together by `answer`. Version `first` is
    published and released by the caller.
    """
    exchange = crew.exchange
    for k in range(first, plan.intervals):
        began = time.perf_counter()
        goal = (k + 1) * plan.alpha
        # No counting of steps: who died and was replaced may be one behind the others.
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
        exchange.release(k + 1)
        yield finished
