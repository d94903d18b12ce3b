"""Episodes that only sleep, and a worker process that stands for several workers.

An episode lasts the sum of its steps' times, drawn from a step-time law. A worker process of
`lanes` lanes sleeps a `lanes`-th of it, so results come as fast as from that many workers with one
episode each, and cost the pool as much. Two cores carry a thousand lanes.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drumline.envs.timing import StepTimeLaw, StepTimes
from drumline.protocols import Worker, WorkerContext

STEPS = 50
"""Env steps of an episode."""


class Episode(NamedTuple):
    """Task: an episode that lasts `seconds` on a lane of its own."""

    number: int
    seconds: float


class Slept(NamedTuple):
    """Result, of the size of an episode's return, length and fitness."""

    number: int
    episode_return: float
    length: int
    fitness: float


@dataclass(frozen=True)
class SleepingWorker:
    """Worker factory."""

    lanes: int

    def __call__(self, context: WorkerContext) -> Worker:
        """Build the worker inside its process."""

        def run(task: Episode) -> Slept:
            time.sleep(task.seconds / self.lanes)
            context.progress(STEPS)
            return Slept(task.number, task.seconds, STEPS, -task.seconds)

        return run


def episodes(law: StepTimeLaw, count: int, seed: int = 0) -> list[Episode]:
    """Return episodes whose steps follow the law, one environment each."""
    times = StepTimes(law, seed, 0, count)
    seconds = np.sum([times.next() for _ in range(STEPS)], axis=0)
    return [Episode(number, float(one)) for number, one in enumerate(seconds)]
