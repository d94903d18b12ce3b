"""A single stream: one env step, one gradient step, and so on, in one process (TD3).

The steps are cut into blocks of a fixed length. A block is an update of the run: all learned state
can be saved between two blocks.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drumline.types import Metrics, State


class StreamLearner(Protocol):
    """A learner that draws from the replay, one gradient step at a time."""

    @property
    def actor(self) -> Any:
        """Return the parameters `[P]` of the acting policy, in place."""
        ...

    def begin(self, block: int) -> None:
        """Start the random streams of a block."""
        ...

    def learn(self, watermark: int) -> bool:
        """Make a gradient step from a window of the replay; return whether the actor changed."""
        ...

    def metrics(self) -> Metrics:
        """Return the mean metrics of the block."""
        ...

    def learned(self) -> Mapping[str, Any]:
        """Return copies of the arrays that a fingerprint covers besides the actor."""
        ...

    def state(self) -> State:
        """Return copies of all learned state, so that `load` goes on with the same bits."""
        ...

    def load(self, state: State) -> None:
        """Load a state; `ValueError` with the name of a missing entry or one of another shape."""
        ...


class Stream(Protocol):
    """A source of transitions."""

    def follow(self, parameters: Any) -> None:
        """Act with these parameters from the next step on."""
        ...

    def begin(self, block: int, steps: int) -> None:
        """Start the random streams of a block."""
        ...

    def step(self, random: bool) -> Any:
        """Make one env step."""
        ...


@dataclass(frozen=True)
class SingleStreamPlan:
    """Settings that stay constant for all blocks of a run."""

    block: int
    """Env steps per update."""
    blocks: int
    random_steps: int
    """Env steps with random actions, before the first gradient step."""


@dataclass(frozen=True)
class Block:
    """One finished block; `update` counts the blocks, this one included."""

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
