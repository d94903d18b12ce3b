"""Staff of a run of executors, actors and a learner: a crew's plan from a layout."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from drumline.protocols import Learner, PublishedLayout
from drumline.runtime.crews.crew_plan import CrewPlan
from drumline.runtime.crews.exchange import Ownership, even_chunks
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.workers.actor import ActorSpec
from drumline.workers.executor import ExecutorSpec, parted


@dataclass(frozen=True)
class Staff:
    """Counts of executors and actors, and the place of the forward passes."""

    executors: int
    actors: int = 0
    inline: bool = False
    """Whether the roles run in the driver's process."""
    driver_acts: bool = False
    """Whether the driver makes the forward passes for all environments."""
    acting_threads: int = 1
    """Torch threads of a driver that makes the forward passes."""
    halves: int = 2
    """Groups of an executor's environments: one is stepped while the policy answers another."""
    engine_threads: int = 1
    """Threads of an EnvPool."""
    newest: bool = False
    """Whether every role acts with the newest version: free running."""
    words: str = "inline"
    """Description of the run's processes."""
    group: int = 0
    groups: int = 1
    """Groups that each step and learn from an equal part of the environments; this is `group`."""

    def own(self, environments: int) -> range:
        """Return the group's environments."""
        width = environments // self.groups
        return range(self.group * width, (self.group + 1) * width)

    def bounds(self, environments: int) -> tuple[int, ...]:
        """Return the first environment of each executor, and the end of the group's."""
        own = self.own(environments)
        return tuple(own.start + bound for bound in even_chunks(len(own), self.executors))

    def served(self, environments: int) -> tuple[int, ...]:
        """Return the first environment that each actor serves, and the end of the group's."""
        own = self.own(environments)
        actors = min(self.actors, len(own))
        return (
            tuple(own.start + bound for bound in even_chunks(len(own), actors)) if actors else (0,)
        )

    def turns(self, environments: int) -> list[np.ndarray]:
        """Return the environments that the driver answers together, half by half."""
        bounds = self.bounds(environments)
        groups = [parted(first, last, self.halves) for first, last in pairwise(bounds)]
        halves = [[own[half] for own in groups if half < len(own)] for half in range(self.halves)]
        return [np.concatenate(half) for half in halves if half]

    def crew_plan(
        self,
        parts: ActorCriticParts,
        learner: Learner,
        start_of: Callable[[str, int], Any],
        place_of: Callable[[str, int], str],
    ) -> CrewPlan:
        """Return the crew's roles and the memory that they share."""
        config, shape, head = parts.config, parts.shape, parts.network.head
        bounds, served = self.bounds(config.num_envs), self.served(config.num_envs)
        inference = parts.inference()
        executor = ExecutorSpec(
            lanes=replace(parts.lanes, threads=self.engine_threads),
            bounds=bounds,
            shape=shape,
            head=head,
            seed=config.seed,
            inference=None if len(served) > 1 or self.driver_acts else inference,
            renew_intervals=config.renew_intervals if parts.renewed else 0,
            halves=self.halves,
            newest=self.newest,
        )
        return CrewPlan(
            ownership=Ownership(bounds, served),
            executor=executor,
            actor=ActorSpec(served, shape, head, inference, self.newest)
            if len(served) > 1
            else None,
            storage=shape.layout(),
            published=PublishedLayout.of(learner.published()),
            start_of=start_of,
            place_of=place_of,
        )


def counted(number: int, what: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "actor"), counted(2, "actor")
    ('1 actor', '2 actors')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
