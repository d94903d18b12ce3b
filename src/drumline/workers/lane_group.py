"""LaneGroup: environments of one executor that step together through the intervals.

    HELD ─ released ─▶ READY ─ act ─▶ (REQUESTED ─ served ─▶) step ─▶ (RESTING ─▶) READY | HELD

A lane is HELD at the end of an interval, REQUESTED while an actor computes its action, and RESTING
while an artificially slow environment would still be computing. Without artificial slowness, a
group's lanes always move together.
"""

import time
from typing import Any

import numpy as np

from drumline import seeding
from drumline.buffers.rollout import STORAGES, RolloutStorage
from drumline.crew_protocols import RoleContext
from drumline.envs.lanes import Lanes
from drumline.envs.timing import StepTimes
from drumline.policies.actions import ActionHead, sample
from drumline.workers.versions import Forward

HELD, READY, REQUESTED, RESTING = range(4)
SERVED = 2
NOISE_BLOCK = 128  # making a generator costs as much as drawing hundreds of numbers

Place = tuple[Any, Any, Any]
"""(storage, t, environments): slices if all lanes are at one step, else index arrays."""


class LaneGroup:
    """`m` environments; arrays are indexed by lane, and lane l is environment `first + l`."""

    def __init__(
        self,
        lanes: Lanes,
        first: int,
        carried: np.ndarray,
        context: RoleContext,
        storage: RolloutStorage,
        noise: "NoiseBlocks",
        *,
        head: ActionHead,
        forward: Forward | None,
        step_times: StepTimes | None,
        renewal: int,
        renew_intervals: int,
        together: bool = False,
        stepped: bool = False,
    ):
        """With `together`, begin each interval with all lanes, even if released one by one.

        `stepped`: these environments have been stepped in this process, to restore them. The first
        step of others may compile, and has the time limit of their creation.
        """
        count = lanes.count
        self._lanes = lanes
        self._context = context
        self._exchange = context.exchange
        self._storage = storage
        self._noise = noise
        self._head = head
        self._forward = forward
        self._step_times = step_times
        self._renewal = renewal
        self._renew_intervals = renew_intervals
        self._together = together
        self._stepped = np.full(count, stepped)
        self._all_stepped = stepped
        self._alpha = storage.shape.alpha
        self._all_lanes = np.arange(count)
        self._environments = first + self._all_lanes
        self._whole = slice(first, first + count)
        self._carried = carried
        self._steps = self._exchange.finished[self._whole].copy()
        self._stage = np.where(self._steps % self._alpha > 0, READY, HELD)
        self._due = np.full(count, np.inf)
        """Due time of each resting lane."""
        self._exchange.state[self._whole] = 0

    def advance(self) -> bool:
        """Make every move that needs no waiting; return whether there was one."""
        worked = False
        if self._step_times is not None:
            due = (self._due <= time.perf_counter()).nonzero()[0]
            if len(due):
                self._due[due] = np.inf
                self._land(due)
                worked = True
        if self._forward is None:
            served = self._served()
            if len(served):
                self._step(served, self._place(served, self._steps[served]))
                worked = True
        held = (self._stage == HELD).nonzero()[0]
        if len(held):
            self._begin(held)
        ready = (self._stage == READY).nonzero()[0]
        if len(ready):
            self._act(ready)
            worked = True
        return worked

    def due_seconds(self) -> float | None:
        """Return the seconds until the next resting lane is due; None if none rests."""
        earliest = float(self._due.min())
        return None if earliest == np.inf else max(0.0, earliest - time.perf_counter())

    def _served(self) -> np.ndarray:
        requested = (self._stage == REQUESTED).nonzero()[0]
        if not len(requested):
            return requested
        answered = self._exchange.state[self._environments[requested]] == SERVED
        if self._step_times is None and not answered.all():
            return requested[:0]
        return requested[answered]

    def _begin(self, held: np.ndarray) -> None:
        """Begin the next interval in the lanes for which it is released."""
        intervals = self._steps[held] // self._alpha
        for interval in sorted(set(intervals.tolist())):
            lanes = held[intervals == interval]
            lanes = lanes[self._exchange.may_begin(self._environments[lanes], interval)]
            renewed = self._must_renew(interval)
            if not len(lanes) or (
                (renewed or self._together) and len(lanes) < len(self._all_lanes)
            ):
                continue  # one pool holds all of them, so they are renewed together
            if renewed:
                self._renewal = interval // self._renew_intervals
                with self._context.building():
                    self._carried[:] = self._lanes.renew(self._renewal)
            self._context.probe("interval-begun")
            environments = self._environments[lanes]
            self._storage.begin(interval, environments, self._carried[lanes])
            self._context.probe("first-row-written")
            self._stage[lanes] = READY

    def _must_renew(self, interval: int) -> bool:
        every = self._renew_intervals
        return every > 0 and interval % every == 0 and interval // every != self._renewal

    def _act(self, ready: np.ndarray) -> None:
        self._context.probe("before-act")
        noise = self._noise.at(ready, self._steps)
        if self._forward is None:
            environments = self._environments[ready]
            self._storage.noise[environments] = noise
            self._stage[ready] = REQUESTED
            self._exchange.request(environments, self._steps[ready] // self._alpha)
            self._context.probe("request-sent")
            return
        steps = self._steps[ready]
        versions = self._forward.wanted(steps // self._alpha)
        different = dict.fromkeys(versions.tolist())
        for version in different:
            lanes, drawn, counted = ready, noise, steps
            if len(different) > 1:
                chosen = versions == version
                lanes, drawn, counted = ready[chosen], noise[chosen], steps[chosen]
            at = self._place(lanes, counted)
            storage = self._storage
            outputs, values = self._forward(version, self._standing(lanes))
            storage.actions[at], storage.log_probs[at] = sample(self._head, outputs, drawn)
            storage.values[at] = values
            storage.versions[at] = version
            self._step(lanes, at)

    def _step(self, lanes: np.ndarray, at: Place) -> None:
        """Step lanes with a stored action; all results are stored before the step is counted."""
        storage = self._storage
        self._context.probe("before-step")
        whole = len(lanes) == len(self._all_lanes)
        if self._all_stepped:
            steps = self._lanes.step(None if whole else lanes, storage.actions[at])
        else:
            with self._context.building():
                steps = self._lanes.step(None if whole else lanes, storage.actions[at])
            self._stepped[lanes] = True
            self._all_stepped = bool(self._stepped.all())
        storage.rewards[at] = steps.rewards
        if storage.scores is not None and self._lanes.scores is not None:
            storage.scores[at] = self._lanes.scores[lanes]
        self._context.probe("half-row")
        storage.terminated[at] = steps.terminated
        storage.truncated[at] = steps.truncated
        if len(steps.final_observations):
            cut = lanes[steps.truncated]
            for lane, observation in zip(cut.tolist(), steps.final_observations, strict=True):
                interval, t = divmod(int(self._steps[lane]), self._alpha)
                storage.cut(interval, t, int(self._environments[lane]), observation)
        self._carried[lanes] = steps.observations
        self._context.progress(len(lanes))
        if self._step_times is None:
            self._land(lanes)
        else:
            self._due[lanes] = time.perf_counter() + self._step_times.next(lanes)
            self._stage[lanes] = RESTING

    def _land(self, lanes: np.ndarray) -> None:
        """Store the observations after a step, then count the step."""
        steps = self._steps[lanes]
        self._context.probe("row-stored")
        self._storage.follow(self._place(lanes, steps), self._standing(lanes))
        steps += 1
        self._steps[lanes] = steps
        full = steps % self._alpha == 0
        ends = bool(full.any())
        self._stage[lanes] = np.where(full, HELD, READY) if ends else READY
        self._exchange.finish(self._environments[lanes], steps)
        self._context.probe("finished")
        if ends:
            self._exchange.tell_driver()

    def _standing(self, lanes: np.ndarray) -> np.ndarray:
        """Return the current observations of these lanes."""
        return self._carried if len(lanes) == len(self._all_lanes) else self._carried[lanes]

    def _place(self, lanes: np.ndarray, steps: np.ndarray) -> Place:
        if len(lanes) == len(self._all_lanes) and (steps == steps[0]).all():
            interval, t = divmod(int(steps[0]), self._alpha)
            return interval % STORAGES, t, self._whole
        intervals, t = np.divmod(steps, self._alpha)
        return intervals % STORAGES, t, self._environments[lanes]


class NoiseBlocks:
    """Numbers for sampling actions: a function of environment e and step s alone."""

    def __init__(self, seed: int, environments: np.ndarray, head: ActionHead):
        self._seed = seed
        self._environments = environments.tolist()
        self._normal = head.noise_kind == "normal"
        count = len(self._environments)
        self._block = np.full(count, -1)
        self._numbers = np.zeros((count, NOISE_BLOCK, head.noise_size), np.float32)

    def at(self, lanes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the numbers `[len(lanes), noise_size]` of these lanes' current steps."""
        blocks, within = np.divmod(steps[lanes], NOISE_BLOCK)
        stale = self._block[lanes] != blocks
        if stale.any():
            for lane, block in zip(lanes[stale].tolist(), blocks[stale].tolist(), strict=True):
                self._fill(lane, block)
        return self._numbers[lanes, within]

    def _fill(self, lane: int, block: int) -> None:
        rng = seeding.generator(self._seed, "action", self._environments[lane], block)
        shape = self._numbers.shape[1:]
        draw = rng.standard_normal if self._normal else rng.random
        self._numbers[lane] = draw(shape, dtype=np.float32)
        self._block[lane] = block
