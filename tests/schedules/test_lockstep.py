"""Lock-step on toy environments that take their steps in random order."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from drumline.schedules.intervals import Interval, RotationPlan
from drumline.schedules.lockstep import lockstep
from drumline.types import State

ENVIRONMENTS = 5


class Toys:
    """Exchange and crew in one: at each wait some environments move, never in the same order."""

    def __init__(self, seed: int):
        self.exchange = self
        self.rng = random.Random(seed)
        self.finished = [0] * ENVIRONMENTS
        self.asking = [False] * ENVIRONMENTS
        self.answered = [False] * ENVIRONMENTS
        self.released = 0
        self.alpha = 3
        self.log: list[Any] = []

    def all_finished(self, steps: int) -> bool:
        return min(self.finished) >= steps

    def standing(self, environments: list[int], steps: int) -> bool:
        return all(self.asking[e] or self.finished[e] >= steps for e in environments)

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        while not until():
            self._move(self.rng.randrange(ENVIRONMENTS))
        return True

    def answer(self, environments: list[int]) -> bool:
        asked = [e for e in environments if self.asking[e]]
        for e in asked:
            self.asking[e], self.answered[e] = False, True
        self.log.append([(e, self.finished[e]) for e in asked])
        return bool(asked)

    def read(self, interval: int) -> Any:
        assert self.all_finished((interval + 1) * self.alpha)
        return interval

    def publish(self, version: int, arrays: Mapping[str, Any]) -> None:
        self.log.append(f"version {version}")

    def published(self, version: int) -> Mapping[str, Any]:
        return {}

    def release(self, interval: int) -> None:
        self.released = interval

    def _move(self, e: int) -> None:
        if self.answered[e]:
            self.answered[e] = False
            self.finished[e] += 1
        elif self.finished[e] // self.alpha <= self.released:
            self.asking[e] = True


class Nothing:
    """A learner that learns nothing."""

    def update(self, rollout: Any, behavior: Mapping[str, Any]) -> dict[str, float]:
        return {}

    def published(self) -> Mapping[str, Any]:
        return {}

    def state(self) -> State:
        return State()

    def load(self, state: State) -> None:
        pass


def run(toys: Toys, turns: list[list[int]], intervals: int) -> list[Interval]:
    plan = RotationPlan(toys.alpha, intervals, lag=0)
    steps = lockstep(Nothing(), toys, toys, plan, turns=turns, answer=toys.answer)  # pyright: ignore
    return list(steps)


@pytest.mark.parametrize("seed", range(20))
def test_no_environment_is_answered_before_all_stand_at_the_same_step(seed: int):
    toys = Toys(seed)
    done = run(toys, [list(range(ENVIRONMENTS))], 4)
    assert [interval.version for interval in done] == [1, 2, 3, 4]
    batches = [entry for entry in toys.log if isinstance(entry, list) and entry]
    assert batches == [[(e, step) for e in range(ENVIRONMENTS)] for step in range(12)]


@pytest.mark.parametrize("seed", range(20))
def test_halves_are_answered_in_turn_and_wait_for_their_own_alone(seed: int):
    toys = Toys(seed)
    halves = [[0, 1, 2], [3, 4]]
    run(toys, halves, 4)
    batches = [entry for entry in toys.log if isinstance(entry, list) and entry]
    assert batches == [[(e, step) for e in half] for step in range(12) for half in halves]


def test_a_version_is_made_while_no_environment_acts():
    toys = Toys(0)
    run(toys, [list(range(ENVIRONMENTS))], 2)
    words = [entry if isinstance(entry, str) else "batch" for entry in toys.log if entry]
    assert words == [*["batch"] * 3, "version 1", *["batch"] * 3, "version 2"]
