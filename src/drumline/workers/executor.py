"""The executor: steps its environments, draws all their random numbers, writes the storages.

The course of an environment depends only on its own observations, its own noise and the version of
its interval, so no layout of executors and actors changes a bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.crew_protocols import RoleContext
from drumline.envs.lanes import LaneHistory, Lanes
from drumline.envs.lanes_spec import LanesSpec
from drumline.policies.actions import ActionHead
from drumline.policies.inference import Inference
from drumline.workers.lane_group import LaneGroup, NoiseBlocks
from drumline.workers.versions import forward_for


class ExecutorStart(NamedTuple):
    """Start of an executor: the histories of its environments, in their order."""

    histories: Sequence[LaneHistory]


@dataclass(frozen=True)
class ExecutorSpec:
    """Everything an executor needs; a crew calls it to build one."""

    lanes: LanesSpec
    """All environments of the run; an executor makes its own part."""
    bounds: tuple[int, ...]
    """First environment of each executor; the last entry is the number of environments."""
    shape: RolloutShape
    head: ActionHead
    seed: int
    inference: Callable[[], Inference] | None
    """Builds the executor's own forward pass; None if actors make it."""
    renew_intervals: int = 0
    """Renew environments before each interval whose number this divides; 0: never."""
    halves: int = 2
    """Groups of one executor that step in turn while actors make the forward pass."""
    newest: bool = False
    """Free running: act with the newest version; each environment is released on its own."""

    def __call__(self, context: RoleContext) -> "Executor":
        """Build the executor inside its process."""
        return Executor(self, context)


class Executor:
    """A `Role`: `advance` moves its environments as far as they can go now."""

    def __init__(self, spec: ExecutorSpec, context: RoleContext):
        storage = RolloutStorage(spec.shape, context.arrays)
        start: ExecutorStart = context.start
        alpha = spec.shape.alpha
        first, last = spec.bounds[context.index : context.index + 2]
        forward = None
        if spec.inference is not None:
            forward = forward_for(spec.inference, context, newest=spec.newest)
        # Two groups if actors answer: one group steps while the other is served.
        halves = 1 if spec.inference is not None else spec.halves
        # A pool is renewed with all its lanes, so the lanes must stay as close together as unrolls
        # do.
        every = spec.renew_intervals
        self._groups: list[LaneGroup] = []
        made: list[tuple[np.ndarray, LanesSpec, Lanes, list[LaneHistory]]] = []
        for members in parted(first, last, halves):
            begin, count = int(members[0]), len(members)
            for environment in members.tolist():
                interval, done = divmod(int(context.exchange.finished[environment]), alpha)
                if done:
                    storage.recount(interval, environment, done)
            lanes_spec = replace(spec.lanes, first=begin, count=count)
            lanes = lanes_spec(context.alive)
            context.on_leave(lanes.close)
            histories = _of_one_renewal(start.histories[begin - first : begin - first + count])
            made.append((members, lanes_spec, lanes, histories))
        replaying = _Replayed(
            context, sum(lanes.steps_to_replay(histories) for _, _, lanes, histories in made)
        )
        for members, lanes_spec, lanes, histories in made:
            self._groups.append(
                LaneGroup(
                    lanes,
                    int(members[0]),
                    np.array(lanes.restore(histories, replaying), spec.shape.observation_dtype),
                    context,
                    storage,
                    NoiseBlocks(spec.seed, members, spec.head),
                    head=spec.head,
                    forward=forward,
                    step_times=lanes_spec.step_times(),
                    renewal=histories[0].renewal,
                    renew_intervals=every,
                    together=spec.newest and (spec.lanes.step_time is None or every > 0),
                    stepped=all(len(one.ended) and not one.ended[-1] for one in histories),
                )
            )

    def advance(self) -> bool:
        """Move each group as far as it can go; return whether any group moved."""
        worked = [group.advance() for group in self._groups]
        return any(worked)

    def due_seconds(self) -> float | None:
        """Return the seconds until the next resting environment is due; None if none rests."""
        due = [group.due_seconds() for group in self._groups]
        return min((seconds for seconds in due if seconds is not None), default=None)


class _Replayed:
    """Counts replayed env steps for the driver: a restore may last while it makes progress."""

    def __init__(self, context: RoleContext, total: int):
        self._context = context
        self._total = total
        self._replayed = 0

    def __call__(self, steps: int) -> None:
        self._replayed += steps
        self._context.replaying(self._replayed, self._total)


def parted(first: int, last: int, parts: int) -> list[np.ndarray]:
    """Return the environments of one executor in groups; no group is empty."""
    return np.array_split(np.arange(first, last), min(parts, last - first))


def _of_one_renewal(histories: Sequence[LaneHistory]) -> list[LaneHistory]:
    """Move lanes that stand right before a renewal back to the renewal of the other lanes.

    These lanes have no step left before the renewal: the group is renewed when all its lanes have
    come as far.
    """
    oldest = min(histories, key=lambda history: history.renewal)
    return [
        history
        if history.renewal == oldest.renewal
        else oldest._replace(actions=oldest.actions[:0], ended=oldest.ended[:0])
        for history in histories
    ]
