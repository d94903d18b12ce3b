"""Steps of random actions, kept as digests: an environment that repeats itself gives the same."""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drumline import seeding
from drumline.envs.environment import Environment, EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.functional.torch_threads import one_torch_thread
from drumline.protocols import Worker, WorkerContext


@dataclass
class Trace:
    """Digests of an episode's observations `[T + 1]`, its rewards `[T]` and its ends `[T]`."""

    observations: list[bytes] = field(default_factory=list)
    rewards: list[bytes] = field(default_factory=list)
    ends: list[tuple[bool, bool]] = field(default_factory=list)

    def first_difference(self, other: "Trace") -> str:
        """Return the first value in which two traces differ, with its step; "" if they are equal.

        >>> one, two = Trace([b"a", b"b"], [b"1"]), Trace([b"a", b"c"], [b"1"])
        >>> one.first_difference(two), one.first_difference(one)
        ('observation at step 1', '')
        """
        for step in range(max(len(self.observations), len(other.observations))):
            for name, first in (("reward", 1), ("end", 1), ("observation", 0)):
                mine, others = getattr(self, f"{name}s"), getattr(other, f"{name}s")
                at = slice(step - first, step - first + 1) if step >= first else slice(0)
                if mine[at] != others[at]:
                    return f"{name} at step {step}"
        return ""


class RandomEpisode:
    """An episode of random actions that follow from its seed; the time limit is counted here."""

    def __init__(self, environment: Environment, limit: int, seed: int):
        self.trace = Trace()
        self.length = 0
        self.ended = False
        self.last: Any = None
        """The newest observation."""
        self._environment = environment
        self._limit = limit
        self._seed = seed
        self._space = copy.deepcopy(environment.action_space)

    def begin(self) -> None:
        """Reset the environment."""
        self._space.seed(self._seed)
        self.last, _ = self._environment.reset(seed=self._seed)
        self.trace.observations.append(_digest(self.last))

    def step(self) -> None:
        """Make one step with a random action."""
        action = self._space.sample()
        discrete = isinstance(action, np.integer)
        stepped = self._environment.step(int(action) if discrete else action)
        self.last, reward, terminated, truncated, _ = stepped
        self.length += 1
        self.trace.observations.append(_digest(self.last))
        self.trace.rewards.append(_digest(np.float64(reward)))
        self.trace.ends.append((bool(terminated), bool(truncated)))
        self.ended = bool(terminated or truncated) or self.length == self._limit

    @one_torch_thread()
    def run(self, steps: int, progress: Callable[[int], None] = lambda amount: None) -> Trace:
        """Make up to `steps` steps of the episode, fewer where it ends."""
        self.begin()
        while not self.ended and self.length < steps:
            self.step()
            progress(1)
        return self.trace


@dataclass(frozen=True)
class RandomEpisodeSpec:
    """Factory of a worker that runs a random episode per task, which is the episode's seed."""

    environment: EnvironmentSpec
    steps: int

    def __call__(self, context: WorkerContext) -> Worker:
        """Make the environment inside the worker process."""
        with context.building():
            made = make_environment(self.environment)
        context.on_leave(made.close)

        def answer(seed: int) -> Trace:
            seeding.seed_globals(seed)
            return RandomEpisode(made.environment, made.limit, seed).run(
                self.steps, context.progress
            )

        return answer


def _digest(value: Any) -> bytes:
    array = np.ascontiguousarray(value)
    return hashlib.blake2b(array.tobytes(), digest_size=8).digest()
