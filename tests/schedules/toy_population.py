"""A toy of asynchronous search whose every event changes floats in an order-sensitive way.

It has all that AES-RL has and learns nothing: individuals of two jobs (some refined by gradient
steps on a replay window, then an evaluation of the mean), a critic throttled by env steps, a ring
with slack that only the driver writes, staging slabs that only the worker's job writes.
"""

import hashlib
import os
import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from drumline import seeding
from drumline.protocols import PublishedLayout, Worker, WorkerContext
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.event_order import VirtualCosts
from drumline.tasks import Event, Job, Told

LONGEST = 24
WIDTH = 3
COSTS = VirtualCosts(env_step=1000, actor_step=300, critic_step=200)
KINDS = ("rollout", "refine", "evaluate", "critic")


class ToyTask(NamedTuple):
    """One job of a toy; `kind` is one of KINDS."""

    kind: str
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    version: int
    seed: int
    slab: int
    gradient_steps: int
    watermark: int
    """The replay window ends here."""


class ToyResult(NamedTuple):
    """Result of one job."""

    values: tuple[float, ...]
    fitness: float
    env_steps: int


@dataclass(frozen=True)
class ToySettings:
    """Settings of a toy run that stay constant."""

    concurrency: int = 4
    individuals: int = 16
    evaluates: bool = True
    capacity: int = 60
    slack: int = 40
    warmup: int = 3

    @property
    def ring_rows(self) -> int:
        return self.capacity + self.slack

    def memory(self) -> SharedArrays:
        return SharedArrays.create(
            PublishedLayout(
                {
                    "ring": ((self.ring_rows, WIDTH), "<f8"),
                    "slabs": ((self.concurrency, LONGEST, WIDTH), "<f8"),
                }
            )
        )


@dataclass(frozen=True)
class ToyWorkerSpec:
    """Factory of the far side; it sleeps for a random time before some of its steps."""

    settings: ToySettings
    longest_sleep: float = 0.0

    def __call__(self, context: WorkerContext) -> Worker:
        rng = random.Random(os.getpid())

        def run(task: ToyTask) -> ToyResult:
            context.probe(f"{task.kind}-begun")
            state = {name: array.copy() for name, array in context.published(task.version).items()}
            noise = seeding.generator(task.seed, "toy")
            values = state["mean"] + np.sqrt(state["variance"]) * noise.standard_normal(WIDTH)
            if task.kind == "critic":
                values = state["critic"].copy()
            if task.kind == "evaluate":
                values = state["mean"].copy()
            steps = int(noise.integers(1, LONGEST + 1)) if task.kind != "critic" else 0
            window = _window(self.settings, task.watermark)
            for step in range(task.gradient_steps):
                row = context.shared["ring"][window[noise.integers(len(window))]]
                values = values * 0.97 + 0.01 * row * (1.0 + state["critic"])
                self._step(context, rng, step, task.gradient_steps + steps, task.kind)
            fitness = 0.0
            for step in range(steps):
                observed = np.sin(values * (step + 1)) + 0.1 * noise.standard_normal(WIDTH)
                if task.kind in ("rollout", "refine"):
                    context.shared["slabs"][task.slab, step] = observed
                fitness += float(observed.sum()) / (step + 2)
                done = task.gradient_steps + step
                self._step(context, rng, done, task.gradient_steps + steps, task.kind)
            context.probe(f"{task.kind}-end")
            return ToyResult(tuple(values.tolist()), fitness, steps)

        return run

    def _step(
        self, context: WorkerContext, rng: random.Random, done: int, steps: int, kind: str
    ) -> None:
        if self.longest_sleep and rng.random() < 0.2:
            time.sleep(rng.uniform(0.0, self.longest_sleep))
        if done == steps // 2:
            context.probe(f"{kind}-half")
        context.progress(1)


def _window(settings: ToySettings, watermark: int) -> np.ndarray:
    """Return the places of the rows before `watermark`."""
    return np.arange(max(0, watermark - settings.capacity), watermark) % settings.ring_rows


class ToyPopulation:
    """Tells, refines, throttles and counts as AES-RL does, with arithmetic that feels order."""

    def __init__(self, settings: ToySettings, shared: Mapping[str, np.ndarray], seed: int = 0):
        self.settings = settings
        self.shared = shared
        self.seed = seed
        self.mean = np.zeros(WIDTH)
        self.variance = np.full(WIDTH, 0.1)
        self.critic = np.ones(WIDTH)
        self.counters = dict.fromkeys(
            ("asked", "refined", "plain", "told", "counted", "critic_steps", "version", "jobs"), 0
        )
        self.lengths: list[int] = []
        self.second: dict[int, ToyResult] = {}
        """Individuals whose mean is still to be evaluated, by logical worker."""
        self.rows = np.zeros((0, WIDTH))
        """Every transition so far, in virtual order: what the ring must agree with."""
        self.staged: deque[tuple[int, int, int]] = deque()
        """(slab or −1 for rows of an earlier session, first row, count)"""
        self.filled = 0
        self.own_rows: dict[int, int] = {}
        """The rows after which each worker's slab is free."""
        self.delayed = 0
        """Number of times that the slack was used up."""

    def env_steps(self, task: ToyTask, result: ToyResult) -> int:
        return result.env_steps

    def _append(self, worker: int, task: ToyTask, result: ToyResult) -> None:
        if task.kind in ("rollout", "refine"):
            new = self.shared["slabs"][task.slab, : result.env_steps].copy()
            self.staged.append((task.slab, len(self.rows), result.env_steps))
            self.rows = np.concatenate([self.rows, new])
            self.own_rows[worker] = len(self.rows)

    def tell(self, worker: int, task: ToyTask, result: ToyResult) -> Told:
        self._append(worker, task, result)
        if task.kind != "evaluate":
            self.counters["counted"] += result.env_steps
            self.lengths = [*self.lengths, result.env_steps][-4:]
            self.second[worker] = result
            if self.settings.evaluates:
                return Told({})
        individual = self.second.pop(worker)
        mean_fitness = result.fitness if task.kind == "evaluate" else 0.0
        pull = 1.0 / (1.0 + np.exp(mean_fitness - individual.fitness))
        old = self.mean
        self.mean = (1.0 - pull) * old + pull * np.array(individual.values)
        moved = (np.array(individual.values) - old) * (np.array(individual.values) - self.mean)
        self.variance = np.maximum(self.variance + (moved - self.variance) / 7.0, 1e-3)
        self.counters["told"] += 1
        self.counters["version"] += 1
        return Told({"fitness": individual.fitness})

    def take_critic(self, task: ToyTask, result: ToyResult) -> Told:
        self.critic = self.critic * 0.5 + np.array(result.values) * float(1.0 + self.mean[0])
        self.counters["critic_steps"] += task.gradient_steps
        self.counters["version"] += 1
        return Told({})

    def ask_critic(self) -> Job | None:
        counted, behind = self.counters["counted"], self.counters["critic_steps"]
        if behind >= counted or self._warming_up() or self._finished():
            return None
        return self._job("critic", slab=0, gradient_steps=40)

    def ask(self, worker: int) -> Job | None:
        if worker in self.second:
            return self._job("evaluate", slab=worker)
        if self._finished():
            return None
        self.counters["asked"] += 1
        share = self.counters["refined"] / max(1, self.counters["refined"] + self.counters["plain"])
        draw = seeding.generator(self.seed, "kind", self.counters["asked"]).random()
        if self._warming_up() or draw > 0.5 - 50.0 * (share - 0.5):
            self.counters["plain"] += 1
            return self._job("rollout", slab=worker)
        self.counters["refined"] += 1
        return self._job("refine", slab=worker, gradient_steps=sum(self.lengths))

    def published(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "variance": self.variance, "critic": self.critic}

    def fill(self, oldest: int | None) -> int:
        ring, size = self.shared["ring"], self.settings.ring_rows
        limit = None if oldest is None else max(0, oldest - self.settings.capacity) + size
        while self.staged:
            slab, first, count = self.staged[0]
            if limit is not None and first + count > limit:
                self.delayed += 1
                break
            rows = self.rows[first : first + count]
            if slab >= 0:
                assert rows.tobytes() == self.shared["slabs"][slab, :count].tobytes()
            ring[np.arange(first, first + count) % size] = rows
            self.filled = first + count
            self.staged.popleft()
        return self.filled

    def state(self) -> dict[str, Any]:
        """Plain values and arrays only: nothing of this session."""
        return {
            "mean": self.mean.copy(),
            "variance": self.variance.copy(),
            "critic": self.critic.copy(),
            "rows": self.rows.copy(),
            "counters": dict(self.counters),
            "lengths": list(self.lengths),
            "second": [[worker, *result] for worker, result in self.second.items()],
        }

    def load(self, state: dict[str, Any], oldest_watermark: int) -> None:
        """Take over a state; the ring is filled again from the oldest window that is in use."""
        self.mean, self.variance = state["mean"].copy(), state["variance"].copy()
        self.critic, self.rows = state["critic"].copy(), state["rows"].copy()
        self.counters = dict(state["counters"])
        self.lengths = list(state["lengths"])
        self.second = {
            worker: ToyResult(tuple(values), fitness, env_steps)
            for worker, values, fitness, env_steps in state["second"]
        }
        self.filled = max(0, oldest_watermark - self.settings.capacity)
        self.staged.extend((-1, row, 1) for row in range(self.filled, len(self.rows)))

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.counters, self.lengths)).encode())
        for array in (self.mean, self.variance, self.critic, self.rows):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def ring_agrees(self) -> bool:
        """Whether the ring's newest rows are those that were appended."""
        rows = np.arange(max(0, self.filled - self.settings.ring_rows), self.filled)
        ring = self.shared["ring"][rows % self.settings.ring_rows]
        return ring.tobytes() == self.rows[rows].tobytes()

    def _warming_up(self) -> bool:
        return self.counters["told"] < self.settings.warmup

    def _finished(self) -> bool:
        return self.counters["asked"] >= self.settings.individuals

    def _job(self, kind: str, slab: int, gradient_steps: int = 0) -> Job:
        self.counters["jobs"] += 1
        watermark = len(self.rows)
        number, version = self.counters["jobs"], self.counters["version"]
        seed = seeding.seeds(self.seed, 1, "job", number)[0]
        task = ToyTask(kind, number, version, seed, slab, gradient_steps, watermark)
        least = 0 if kind == "critic" else 1
        if gradient_steps:
            return Job(task, version, gradient_steps, least, watermark, watermark)
        own = self.own_rows.get(slab, 0) if kind == "rollout" else 0
        return Job(task, version, 0, least, own)


def event_bytes(events: list[Event]) -> bytes:
    """Return the promised part of the events: all but wall-clock time."""
    return repr([event._replace(waited_seconds=0.0) for event in events]).encode()
