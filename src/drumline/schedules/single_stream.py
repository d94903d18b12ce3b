"""A single stream: one step of the environment, one gradient step, and so on, in one process.

Nobody waits for anybody. The steps are cut into blocks of a fixed length, which are the updates
of the run: between two blocks everything that is learned can be written down.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drumline.types import Metrics, State


class StreamLearner(Protocol):
    """Learns from what is in the replay, a gradient step at a time."""

    @property
    def actor(self) -> Any:
        """Return the parameters `[P]` that act, in place."""
        ...

    def begin(self, block: int) -> None:
        """Start the random streams of a block."""
        ...

    def learn(self, watermark: int) -> bool:
        """Make a gradient step from a window; returns whether the actor changed."""
        ...

    def metrics(self) -> Metrics:
        """Return the means of the block."""
        ...

    def learned(self) -> Mapping[str, Any]:
        """Return copies of the arrays that a fingerprint covers besides the actor."""
        ...

    def state(self) -> State:
        """Return copies of all learned state, so that `load` goes on with the same bits."""
        ...

    def load(self, state: State) -> None:
        """Take over a state; raises `ValueError` naming what is missing or of another shape."""
        ...


class Stream(Protocol):
    """Where transitions come from."""

    def follow(self, parameters: Any) -> None:
        """Act with these parameters from now on."""
        ...

    def begin(self, block: int, steps: int) -> None:
        """Start the random streams of a block."""
        ...

    def step(self, random: bool) -> Any:
        """Make one step."""
        ...


@dataclass(frozen=True)
class SingleStreamPlan:
    """What is fixed for all blocks of a run."""

    block: int
    """Env steps per update."""
    blocks: int
    random_steps: int
    """Env steps that are made at random, before anything is learned."""


@dataclass(frozen=True)
class Block:
    """One finished block; `update` counts them, this one included."""

    update: int
    metrics: Metrics
    began: float
    ended: float
    environment_seconds: float


def single_stream(
    learner: StreamLearner,
    stream: Stream,
    remember: Callable[[Any], None],
    plan: SingleStreamPlan,
    *,
    first: int,
    between: Callable[[], None] = lambda: None,
) -> Iterator[Block]:
    """Yield blocks from `first` on; `between` is called between two env steps."""
    stream.follow(learner.actor)
    for number in range(first, plan.blocks):
        began = time.perf_counter()
        stepping = 0.0
        learner.begin(number)
        stream.begin(number, plan.block)
        for env_steps in range(number * plan.block, (number + 1) * plan.block):
            random = env_steps < plan.random_steps
            before = time.perf_counter()
            remember(stream.step(random))
            stepping += time.perf_counter() - before
            if not random and learner.learn(env_steps + 1):
                stream.follow(learner.actor)
            between()
        metrics = learner.metrics()
        yield Block(number + 1, metrics, began, time.perf_counter(), stepping)
