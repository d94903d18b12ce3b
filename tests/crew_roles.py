"""Toy roles for the crew: integers instead of environments, a hash instead of a network.

Environment e's value at step s follows from its value before, e and the version of its interval,
so every byte depends on the order in which versions are used, and on nothing else.
"""

import os
import random
import signal
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from drumline.crew_protocols import RoleContext
from drumline.protocols import Probe, PublishedLayout
from drumline.runtime.crews.crew_plan import CrewPlan
from drumline.runtime.crews.exchange import REQUESTED, SERVED, Ownership, even_chunks
from drumline.schedules.intervals import RotationPlan
from drumline.schedules.overlapped import overlapped
from drumline.types import Metrics, State

LARGE = 2_147_483_647


@dataclass(frozen=True)
class Toy:
    """Sizes of a toy run, and how it misbehaves."""

    environments: int = 5
    alpha: int = 4
    executors: int = 2
    actors: int = 0
    sleeps: bool = False
    raises_at: int = -1
    raised: type[BaseException] = ArithmeticError


def mixed(value: int, environment: int, version: int) -> int:
    return (value * 48_271 + environment * 7 + version * 131 + 1) % LARGE


def toy_storage(toy: Toy) -> dict[str, tuple[tuple[int, ...], str]]:
    steps = (2, toy.alpha + 1, toy.environments)
    return {"toy/values": (steps, "<i8"), "toy/answers": ((toy.environments,), "<i8")}


@dataclass(frozen=True)
class ToyExecutorSpec:
    toy: Toy

    def __call__(self, context: RoleContext) -> "ToyExecutor":
        return ToyExecutor(self.toy, context)


class ToyExecutor:
    def __init__(self, toy: Toy, context: RoleContext):
        self.toy, self.context, self.exchange = toy, context, context.exchange
        bounds = even_chunks(toy.environments, toy.executors)
        self.own = range(bounds[context.index], bounds[context.index + 1])
        self.values = context.arrays["toy/values"]
        self.answers = context.arrays["toy/answers"]
        self.carried: dict[int, int] = dict(zip(self.own, context.start, strict=True))
        self.requested: set[int] = set()
        for environment in self.own:
            self.exchange.state[environment] = 0

    def advance(self) -> bool:
        return any([self.step(environment) for environment in self.own])

    def step(self, environment: int) -> bool:
        toy, exchange, finished = self.toy, self.exchange, int(self.exchange.finished[environment])
        interval, t = divmod(finished, toy.alpha)
        slot = interval % 2
        self.context.probe("before-look")
        if t == 0:
            if interval > exchange.released:
                return False
            self.values[slot, 0, environment] = self.carried[environment]
        one = np.array([environment])
        if toy.actors:
            if environment not in self.requested:
                self.requested.add(environment)
                exchange.request(one, np.array([interval]))
                self.context.probe("request-sent")
                return True
            if exchange.state[environment] != SERVED:
                return False
            self.requested.remove(environment)
            value = int(self.answers[environment])
        else:
            value = answer(
                self.context, int(self.values[slot, t, environment]), environment, interval
            )
        if finished == toy.raises_at:
            raise toy.raised(f"environment {environment} cannot go on at step {finished}")
        if toy.sleeps:
            time.sleep(random.random() * 0.002)
        self.values[slot, t + 1, environment] = value
        self.carried[environment] = value
        self.context.progress(1)
        self.context.probe("row-stored")
        exchange.finish(one, finished + 1)
        if t + 1 == toy.alpha:
            self.context.probe("interval-full")
            exchange.tell_driver()
        return True

    def due_seconds(self) -> None:
        return None


def answer(context: RoleContext, value: int, environment: int, version: int) -> int:
    return mixed(value, environment, int(context.published(version)["theta"][0]))


@dataclass(frozen=True)
class ToyActorSpec:
    toy: Toy

    def __call__(self, context: RoleContext) -> "ToyActor":
        return ToyActor(self.toy, context)


class ToyActor:
    def __init__(self, toy: Toy, context: RoleContext):
        self.toy, self.context = toy, context
        bounds = even_chunks(toy.environments, toy.actors)
        self.own = range(bounds[context.index], bounds[context.index + 1])

    def advance(self) -> bool:
        exchange, context = self.context.exchange, self.context
        ready = [e for e in self.own if exchange.state[e] == REQUESTED]
        for environment in ready:
            interval, t = divmod(int(exchange.finished[environment]), self.toy.alpha)
            value = int(context.arrays["toy/values"][interval % 2, t, environment])
            version = int(exchange.version[environment])
            context.arrays["toy/answers"][environment] = answer(
                context, value, environment, version
            )
            context.probe("half-answer")
            context.progress(1)
            exchange.serve(np.array([environment]))
            context.probe("answer-sent")
        return bool(ready)

    def due_seconds(self) -> None:
        return None


@dataclass(frozen=True)
class HangingSpec:
    """A role that is busy for ever."""

    def __call__(self, context: RoleContext) -> "HangingSpec":
        return self

    def advance(self) -> bool:
        time.sleep(3600.0)
        return True

    def due_seconds(self) -> None:
        return None


@dataclass(frozen=True)
class KillAlways:
    """Probe factory: a process that reaches `point` kills itself."""

    point: str

    def __call__(self) -> Probe:
        return self.probe

    def probe(self, point: str) -> None:
        if point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


def unbuildable(context: RoleContext) -> Any:
    raise RuntimeError("no such environment: Walk-v9")


class ToyLearner:
    """θ_{next} = hash(θ, all values of the interval, the θ that acted in it)."""

    def __init__(self) -> None:
        self.theta = 1

    def update(self, rollout: Any, behavior: Any) -> Metrics:
        for value in rollout.ravel().tolist():
            self.theta = mixed(self.theta, value, int(behavior["theta"][0]))
        return {"theta": float(self.theta)}

    def published(self) -> dict[str, np.ndarray]:
        return {"theta": np.array([self.theta])}

    def state(self) -> State:
        return State()

    def load(self, state: State) -> None:
        raise NotImplementedError


class ToyStorage:
    """Keeps copies of what was read, so that a write while it may be read is seen."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays

    def read(self, interval: int) -> Any:
        return self.arrays["toy/values"][interval % 2]


def toy_plan(toy: Toy, arrays_of: Any = None, **changes: Any) -> CrewPlan:
    """`arrays_of()` returns the crew's arrays: a replacement goes on from what is stored there."""

    def start_of(role: str, index: int) -> list[int]:
        bounds = even_chunks(toy.environments, toy.executors)
        carried = []
        for environment in range(*bounds[index : index + 2]) if role == "executor" else ():
            finished = int(arrays_of()["exchange/finished"][environment])
            interval, t = divmod(finished, toy.alpha)
            place = ((interval - 1) % 2, toy.alpha) if t == 0 else (interval % 2, t)
            carried.append(
                int(arrays_of()["toy/values"][*place, environment]) if finished else environment
            )
        return carried

    fields: dict[str, Any] = {
        "ownership": Ownership(
            even_chunks(toy.environments, toy.executors),
            even_chunks(toy.environments, toy.actors) if toy.actors else (0,),
        ),
        "executor": ToyExecutorSpec(toy),
        "actor": ToyActorSpec(toy) if toy.actors else None,
        "storage": toy_storage(toy),
        "published": PublishedLayout.of(ToyLearner().published()),
        "start_of": start_of,
        "place_of": lambda role, index: f"after {finished_of(arrays_of(), role, toy, index)} steps",
    }
    return CrewPlan(**{**fields, **changes})


def finished_of(arrays: dict[str, np.ndarray], role: str, toy: Toy, index: int) -> list[int]:
    count = toy.executors if role == "executor" else toy.actors
    bounds = even_chunks(toy.environments, count)
    return arrays["exchange/finished"][bounds[index] : bounds[index + 1]].tolist()


def begin(crew: Any, learner: ToyLearner, lag: int, barrier: str) -> None:
    """Publish and release the versions that exist before anything is learned."""
    crew.publish(0, learner.published())
    if lag:
        crew.publish(1, learner.published())
    crew.exchange.release(1 if lag and barrier == "sliding" else 0)
    crew.start()


def run_toy(
    crew: Any,
    toy: Toy,
    intervals: int = 6,
    lag: Literal[0, 1] = 1,
    barrier: Literal["sliding", "hard"] = "sliding",
) -> list[int]:
    """Return θ after every update; raises if a storage was written while it was read."""
    learner = ToyLearner()
    begin(crew, learner, lag, barrier)
    plan = RotationPlan(toy.alpha, intervals, lag, barrier)

    def unchanged(interval: Any) -> None:
        assert np.array_equal(interval.rollout, copies[-1])

    storage = ToyStorage(crew.arrays)
    copies: list[np.ndarray] = []
    read = storage.read
    storage.read = lambda k: copies.append(read(k).copy()) or read(k)  # type: ignore[method-assign]
    steps = overlapped(learner, crew, storage, plan, before_release=unchanged)
    return [learner.theta for _ in steps]


def expected(toy: Toy, intervals: int = 6, lag: int = 1) -> list[int]:
    """The same run as plain loops: interval k acts with θ_k, learned from interval k − 1 − lag."""
    thetas = [1] * (1 + lag)
    values = list(range(toy.environments))
    for k in range(intervals):
        rows = [list(values)]
        for _ in range(toy.alpha):
            values = [mixed(v, e, thetas[k]) for e, v in enumerate(values)]
            rows.append(list(values))
        theta = thetas[-1]
        for value in (v for row in rows for v in row):
            theta = mixed(theta, value, thetas[k])
        thetas.append(theta)
    return thetas[1 + lag :]
