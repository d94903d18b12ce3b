"""Jobs that sleep: a steady-state schedule as if every logical worker had a core of its own."""

import math
import time
from typing import Any, NamedTuple

from drumline import seeding
from drumline.protocols import Worker, WorkerContext
from drumline.tasks import Job
from drumline.types import Metrics

ENV_STEP, ACTOR_STEP, CRITIC_STEP = 1e-3, 1e-3, 0.5e-3
"""True seconds of a step."""
CRITIC_JOB = 200
LAWS = {"constant": math.inf, "gamma4": 4.0, "exponential": 1.0}
"""Shape of the Gamma law of episode lengths."""


class SleepingTask(NamedTuple):
    """So many gradient steps, then so many env steps."""

    number: int
    gradient_steps: int
    gradient_seconds: float
    env_steps: int
    jitter: float
    """Factor on the true time of the whole task."""


def sleeping_worker(context: WorkerContext) -> Worker:
    """Sleeps to the due time of every step, so that late wake-ups do not add up."""

    def run(task: SleepingTask) -> int:
        due = time.perf_counter()
        for steps, seconds in (
            (task.gradient_steps, task.gradient_seconds),
            (task.env_steps, ENV_STEP),
        ):
            for _ in range(steps):
                due += seconds * task.jitter
                time.sleep(max(0.0, due - time.perf_counter()))
                context.progress(1)
        return task.env_steps

    return run


class SleepingPopulation:
    """Individuals whose lengths and kinds follow from their number alone; a throttled critic."""

    def __init__(
        self, individuals: int, law: str, refined: float, mean_length: int, jitter: float, seed: int
    ):
        self.asked = 0
        self.told = 0
        self._individuals = individuals
        self._shape = LAWS[law]
        self._refined = refined
        self._mean_length = mean_length
        self._jitter = jitter
        self._seed = seed
        self._jobs = 0
        self._counted = 0
        self._critic_steps = 0

    @property
    def finished(self) -> bool:
        return self.asked == self._individuals

    def env_steps(self, task: SleepingTask, result: int) -> int:
        return result

    def append(self, worker: int, task: SleepingTask, result: int) -> None:
        """Keep no transitions."""

    def tell(self, worker: int, task: SleepingTask, result: int) -> Metrics:
        self.told += 1
        self._counted += result
        return {}

    def take_critic(self, task: SleepingTask, result: int) -> Metrics:
        self._critic_steps += task.gradient_steps
        return {}

    def ask_critic(self) -> Job | None:
        if not self._refined or self.finished or self._critic_steps >= self._counted:
            return None
        return self._job(CRITIC_JOB, CRITIC_STEP, 0)

    def ask(self, worker: int) -> Job | None:
        if self.finished:
            return None
        self.asked += 1
        rng = seeding.generator(self._seed, "individual", self.asked)
        length = self._mean_length
        if math.isfinite(self._shape):
            drawn = rng.gamma(self._shape, self._mean_length / self._shape)
            length = max(1, round(drawn))
        refined = rng.random() < self._refined
        return self._job(self._mean_length if refined else 0, ACTOR_STEP, length)

    def published(self) -> dict[str, Any]:
        return {}

    def fill(self, oldest: int | None) -> int:
        return 0

    def _job(self, gradient_steps: int, gradient_seconds: float, env_steps: int) -> Job:
        self._jobs += 1
        rng = seeding.generator(self._seed, "jitter", self._jobs)
        jitter = math.exp(self._jitter * float(rng.standard_normal()))
        task = SleepingTask(self._jobs, gradient_steps, gradient_seconds, env_steps, jitter)
        return Job(task, 0, gradient_steps, min(1, env_steps))
