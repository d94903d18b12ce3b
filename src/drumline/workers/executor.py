"""The executor: steps its environments, owns all their randomness, writes the storages.

What an environment does depends on its own observations, its own noise and the version of its
interval alone, so no layout of executors and actors changes a bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.crew_protocols import RoleContext
from drumline.envs.lanes import LaneHistory, LanesSpec
from drumline.policies.actions import ActionHead
from drumline.policies.inference import Inference
from drumline.workers.lane_group import LaneGroup, NoiseBlocks
from drumline.workers.versions import forward_for


class ExecutorStart(NamedTuple):
    """Where an executor takes up its work: the histories of its environments, in order."""

    histories: Sequence[LaneHistory]


@dataclass(frozen=True)
class ExecutorSpec:
    """Everything that an executor needs; called by a crew to build one."""

    lanes: LanesSpec
    """All environments; an executor takes its own part."""
    bounds: tuple[int, ...]
    """First environment of each executor; the last entry is the number of all."""
    shape: RolloutShape
    head: ActionHead
    seed: int
    inference: Callable[[], Inference] | None
    """Builds the forward pass that is done here; None where actors do it."""
    renew_intervals: int = 0
    """Environments are made anew before every interval that this divides; 0: never."""
    halves: int = 2
    """Groups of one executor that are stepped in turn, where others make the forward pass."""
    newest: bool = False
    """Free running: act with the newest version; environments are released one by one."""

    def __call__(self, context: RoleContext) -> "Executor":
        """Build the executor inside its process."""
        return Executor(self, context)


class Executor:
    """A `Role`: `advance` does whatever its environments can do now."""

    def __init__(self, spec: ExecutorSpec, context: RoleContext):
        storage = RolloutStorage(spec.shape, context.arrays)
        start: ExecutorStart = context.start
        alpha = spec.shape.alpha
        first, last = spec.bounds[context.index : context.index + 2]
        forward = None
        if spec.inference is not None:
            forward = forward_for(spec.inference, context, newest=spec.newest)
        # Two halves where an actor answers: one is stepped while the other is served.
        halves = 1 if spec.inference is not None else spec.halves
        # A pool is renewed with all its lanes, which must not be further apart than unrolls wait.
        every = spec.renew_intervals
        self._groups: list[LaneGroup] = []
        for members in parted(first, last, halves):
            begin, count = int(members[0]), len(members)
            for environment in members.tolist():
                interval, done = divmod(int(context.exchange.finished[environment]), alpha)
                if done:
                    storage.recount(interval, environment, done)
            lanes_spec = replace(spec.lanes, first=begin, count=count)
            lanes = lanes_spec()
            context.on_leave(lanes.close)
            histories = _of_one_renewal(start.histories[begin - first : begin - first + count])
            self._groups.append(
                LaneGroup(
                    lanes,
                    begin,
                    np.array(lanes.restore(histories), spec.shape.observation_dtype),
                    context,
                    storage,
                    NoiseBlocks(spec.seed, members, spec.head),
                    head=spec.head,
                    forward=forward,
                    step_times=lanes_spec.step_times(),
                    renewal=histories[0].renewal,
                    renew_intervals=every,
                    together=spec.newest and (spec.lanes.step_time is None or every > 0),
                )
            )

    def advance(self) -> bool:
        """Let each group do what it can."""
        worked = [group.advance() for group in self._groups]
        return any(worked)

    def due_seconds(self) -> float | None:
        """Return after how long the next resting environment is due."""
        due = [group.due_seconds() for group in self._groups]
        return min((seconds for seconds in due if seconds is not None), default=None)


def parted(first: int, last: int, parts: int) -> list[np.ndarray]:
    """Return the environments of one executor in groups, none of them empty."""
    return np.array_split(np.arange(first, last), min(parts, last - first))


def _of_one_renewal(histories: Sequence[LaneHistory]) -> list[LaneHistory]:
    """Put lanes that stand right before a renewal back into the pool that the others are still in.

    They have nothing left to do there: the group is renewed when everybody has come so far.
    """
    oldest = min(histories, key=lambda history: history.renewal)
    return [
        history
        if history.renewal == oldest.renewal
        else oldest._replace(actions=oldest.actions[:0], ended=oldest.ended[:0])
        for history in histories
    ]
