"""Real executors and actors without a learner: version k of the parameters is given beforehand.

So what an interval holds is known from a plain loop over one environment at a time.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium
import numpy as np

from drumline import seeding
from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.journal import Journal
from drumline.envs.lanes import episode_seed
from drumline.envs.lanes_spec import LanesSpec
from drumline.envs.make import make_environment
from drumline.envs.timing import StepTimeLaw
from drumline.functional.frame_stacks import whole
from drumline.policies.actions import head_for, sample
from drumline.policies.actor_critic import initial_parameters
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.protocols import PublishedLayout
from drumline.runtime.crews.crew_plan import CrewPlan
from drumline.runtime.crews.exchange import REQUESTED, SERVED, Ownership, even_chunks
from drumline.runtime.crews.inline_crew import InlineCrew
from drumline.runtime.crews.process_crew import ProcessCrew
from drumline.runtime.crews.roles import SharedRoleContext
from drumline.schedules.intervals import Interval, RotationPlan
from drumline.schedules.overlapped import overlapped
from drumline.types import Metrics, Rollout, State
from drumline.workers.actor import ActorSpec
from drumline.workers.executor import ExecutorSpec, ExecutorStart
from drumline.workers.lane_group import NOISE_BLOCK

GYMNASIUM_CARTPOLE = EnvironmentSpec("CartPole-v1", options={"max_episode_steps": 13})
COUNTING = EnvironmentSpec("lane_environments:counting")
FILMED = EnvironmentSpec("lane_environments:filmed")
BREAKOUT = EnvironmentSpec(
    "Breakout-v5", "envpool", options={"episodic_life": True, "max_episode_steps": 29}
)
CONTINUOUS = EnvironmentSpec("lane_environments:counting", options={"continuous": True})
ENVPOOL_CARTPOLE = EnvironmentSpec("CartPole-v1", "envpool", options={"max_episode_steps": 13})


@dataclass(frozen=True)
class Setup:
    """Settings that the bytes of a collection depend on; `step_time` must not be among them."""

    environment: EnvironmentSpec = COUNTING
    environments: int = 5
    alpha: int = 6
    intervals: int = 6
    truncations: int = 6
    renew_intervals: int = 0
    seed: int = 3
    step_time: StepTimeLaw | None = None
    stored_once: bool = True
    """Whether frames of stacks are stored once; no byte of an observation may depend on it."""

    @property
    def lanes(self) -> LanesSpec:
        """All environments."""
        return LanesSpec(self.environment, self.seed, 0, self.environments, self.step_time)


@dataclass(frozen=True)
class Layout:
    """Settings that no byte may depend on."""

    executors: int = 1
    actors: int = 0
    lag: Literal[0, 1] = 1
    barrier: Literal["sliding", "hard"] = "sliding"


class Parts:
    """The specs of a setup, made once."""

    def __init__(self, setup: Setup):
        lanes = replace(setup.lanes, count=1)()
        space, self.renewed = lanes.observation_space, lanes.needs_renewal
        self.head = head_for(lanes.action_space)
        stack = lanes.stack if setup.stored_once else 1
        lanes.close()
        self.shape = RolloutShape(
            setup.alpha,
            setup.environments,
            space.shape,
            space.dtype.str,
            self.head.action_shape,
            self.head.action_dtype,
            self.head.noise_size,
            setup.truncations,
            stack,
        )
        network = NetworkSpec(space.shape, space.dtype.str, self.head, hidden=(4,))
        self.inference = InferenceSpec(network)
        self._initial = initial_parameters(network, setup.seed)

    def version(self, number: int) -> dict[str, np.ndarray]:
        """Return version `number`: the initial parameters, and something else for each number."""
        rng = np.random.default_rng(number)
        drawn = 0.5 * rng.standard_normal(len(self._initial))
        return {"parameters": self._initial + drawn.astype(np.float32)}


class Copied(dict[str, np.ndarray]):
    """One interval, copied."""

    @staticmethod
    def of(rollout: Rollout) -> "Copied":
        """Copy every array of a rollout."""
        named = rollout._replace(interval=None)._asdict().items()
        return Copied({name: np.array(whole(a)) for name, a in named if a is not None})


class GivenVersions:
    """A `Learner` that learns nothing: it keeps what it is given, and publishes what is next."""

    def __init__(self, parts: Parts, lag: int):
        self.kept: list[Copied] = []
        self._parts = parts
        self._lag = lag

    def update(self, rollout: Rollout, behavior: Mapping[str, np.ndarray]) -> Metrics:
        """Keep the interval."""
        assert rollout.interval == len(self.kept)
        expected = self._parts.version(rollout.interval)["parameters"]
        assert behavior["parameters"].tobytes() == expected.tobytes()
        self.kept.append(Copied.of(rollout))
        return {}

    def published(self) -> Mapping[str, np.ndarray]:
        """Return the version that the next interval but `lag` is acted with."""
        return self._parts.version(len(self.kept) + self._lag)

    def state(self) -> State:
        """Return nothing."""
        return State()

    def load(self, state: State) -> None:
        """Take nothing over."""


def plan_of(
    setup: Setup, layout: Layout, parts: Parts, journal: Journal, arrays_of: Callable[[], Any]
) -> CrewPlan:
    """Return the plan of a crew; `arrays_of()` returns that crew's arrays."""
    executors = even_chunks(setup.environments, layout.executors)
    actors = even_chunks(setup.environments, layout.actors) if layout.actors else (0,)

    def start_of(role: str, index: int) -> ExecutorStart | None:
        if role != "executor":
            return None
        arrays = arrays_of()
        read = RolloutStorage(parts.shape, arrays).read
        finished = arrays["exchange/finished"].tolist()
        own = range(executors[index], executors[index + 1])
        return ExecutorStart([journal.history(e, finished[e], read) for e in own])

    def place_of(role: str, index: int) -> str:
        bounds = executors if role == "executor" else actors
        finished = arrays_of()["exchange/finished"][bounds[index] : bounds[index + 1]]
        return f"environments {bounds[index]}… at steps {finished.tolist()}"

    return CrewPlan(
        ownership=Ownership(executors, actors),
        executor=ExecutorSpec(
            setup.lanes,
            executors,
            parts.shape,
            parts.head,
            setup.seed,
            None if layout.actors else parts.inference,
            setup.renew_intervals,
        ),
        actor=ActorSpec(actors, parts.shape, parts.head, parts.inference)
        if layout.actors
        else None,
        storage=parts.shape.layout(),
        published=PublishedLayout.of(parts.version(0)),
        start_of=start_of,
        place_of=place_of,
    )


MakeCrew = Callable[[CrewPlan], Any]


def collect(setup: Setup, layout: Layout, make: MakeCrew = InlineCrew) -> list[Copied]:
    """Return copies of all intervals; raises if one was written while it could be read."""
    parts = Parts(setup)
    journal = Journal(
        setup.environments,
        setup.alpha,
        renewed=parts.renewed,
        renew_intervals=setup.renew_intervals,
    )
    crew = make(plan_of(setup, layout, parts, journal, lambda: crew.arrays))
    learner = GivenVersions(parts, layout.lag)

    def before_release(interval: Interval) -> None:
        difference = differences([Copied.of(interval.rollout)], learner.kept[-1:])
        assert not difference, f"written while it was read: {difference}"
        journal.fold(interval.rollout)

    try:
        for version in range(1 + layout.lag):
            crew.publish(version, parts.version(version))
        crew.exchange.release(layout.lag if layout.barrier == "sliding" else 0)
        crew.start()
        plan = RotationPlan(setup.alpha, setup.intervals, layout.lag, layout.barrier)
        storage = RolloutStorage(parts.shape, crew.arrays)
        for _ in overlapped(learner, crew, storage, plan, before_release=before_release):
            pass
        shares: Counter[tuple[str, int]] = Counter()
        for row in crew.activity():
            shares[row.role, row.index] += row.progress
        assert len(shares) == layout.executors + layout.actors
        assert all(shares.values()), f"somebody did nothing: {shares}"
    finally:
        crew.close()
    return learner.kept


def in_processes(**options: Any) -> MakeCrew:
    """Return what makes crews of processes with these options."""
    return lambda plan: ProcessCrew(plan, **options)


def differences(found: list[Copied], expected: list[Copied]) -> list[str]:
    """Name every array of every interval that differs in a byte, its type or its shape."""
    assert len(found) == len(expected)
    return [
        f"{name} of interval {interval}"
        for interval, (mine, other) in enumerate(zip(found, expected, strict=True))
        for name in other
        if (mine[name].dtype, mine[name].shape, mine[name].tobytes())
        != (other[name].dtype, other[name].shape, other[name].tobytes())
    ]


def expected(setup: Setup) -> list[Copied]:
    """Return the same intervals from plain loops, one environment after the other."""
    parts = Parts(setup)
    shape = replace(parts.shape, stack=1)
    layout = {name.removeprefix("storage/"): entry for name, entry in shape.layout().items()}
    given = ("observations", "actions", "rewards", "terminated", "truncated", "log_probs", "values")
    intervals = [
        Copied({name: np.zeros(layout[name][0][1:], layout[name][1]) for name in given})
        for _ in range(setup.intervals)
    ]
    cuts: list[list[tuple[int, int, np.ndarray]]] = [[] for _ in intervals]
    for environment in range(setup.environments):
        world = _world(setup, environment)
        observation, noise = next(world), np.zeros(0)
        for k, rows in enumerate(intervals):
            inference = parts.inference()
            inference.load(parts.version(k))
            if k and setup.renew_intervals and k % setup.renew_intervals == 0:
                observation = world.send(None)
            for t in range(setup.alpha):
                block, within = divmod(k * setup.alpha + t, NOISE_BLOCK)
                if within == 0:
                    rng = seeding.generator(setup.seed, "action", environment, block)
                    drawn = (NOISE_BLOCK, parts.head.noise_size)
                    normal = parts.head.noise_kind == "normal"
                    noise = (rng.standard_normal if normal else rng.random)(drawn, np.float32)
                outputs, values = inference(observation[None])
                actions, log_probs = sample(parts.head, outputs, noise[None, within])
                rows["observations"][t, environment] = observation
                rows["actions"][t, environment] = actions[0]
                rows["log_probs"][t, environment] = log_probs[0]
                rows["values"][t, environment] = values[0]
                observation, reward, terminated, final = world.send(actions[0])
                rows["rewards"][t, environment] = reward
                rows["terminated"][t, environment] = terminated
                rows["truncated"][t, environment] = final is not None
                if final is not None:
                    cuts[k].append((t, environment, final))
            rows["observations"][setup.alpha, environment] = observation
    for rows, found in zip(intervals, cuts, strict=True):
        final = np.zeros((len(found), *shape.observation_shape), shape.observation_dtype)
        for row, (_, _, observation) in enumerate(found):
            final[row] = observation
        rows["final_steps"] = np.array([t for t, _, _ in found], np.int32)
        rows["final_environments"] = np.array([e for _, e, _ in found], np.int64)
        rows["final_observations"] = final
    return intervals


World = Iterator[Any]


def _world(setup: Setup, environment: int) -> Any:
    """One environment as a coroutine: send an action, or None to have it made anew."""
    if setup.environment.engine == "envpool":
        return _pool(setup, environment)
    return _episodes(setup, environment)


def _episodes(setup: Setup, environment: int) -> Any:
    made: Any = make_environment(setup.environment)
    world: gymnasium.Env[Any, Any] = made.environment
    discrete, episode = isinstance(world.action_space, gymnasium.spaces.Discrete), 0
    answer: Any = world.reset(seed=episode_seed(setup.seed, environment, 0))[0].copy()
    steps = 0
    while True:
        action = yield answer
        formed = int(action) if discrete else np.clip(action, -1.0, 1.0)
        observation, reward, terminated, truncated, _ = world.step(formed)
        steps += 1
        final = None
        if not terminated and (truncated or steps == made.limit):
            final = np.array(observation)
        if terminated or final is not None:
            episode, steps = episode + 1, 0
            observation = world.reset(seed=episode_seed(setup.seed, environment, episode))[0]
        answer = np.array(observation), reward, terminated, final


def _pool(setup: Setup, environment: int) -> Any:
    lanes = replace(setup.lanes, first=environment, count=1)()
    renewal = 0
    answer: Any = lanes.begin(0)[0].copy()
    while True:
        action = yield answer
        if action is None:
            renewal += 1
            answer = lanes.renew(renewal)[0].copy()
            continue
        steps = lanes.step(None, np.asarray(action)[None])
        final = steps.final_observations[0].copy() if steps.truncated[0] else None
        observation = steps.observations[0].copy()
        answer = observation, steps.rewards[0], steps.terminated[0], final


MOST_TURNS = 30_000  # an interval takes some hundreds


class Died(BaseException):
    """Raised by a probe where a process would be killed."""


class TornExchange:
    """An exchange whose words are written one by one, with a point of death after each."""

    def __init__(self, exchange: Any, probe: Callable[[str], None]):
        self._exchange = exchange
        self._probe = probe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def finish(self, environments: Any, steps: Any) -> None:
        """Count environment by environment."""
        for environment, step in zip(environments.tolist(), steps.tolist(), strict=True):
            self._exchange.finish(np.array([environment]), step)
            self._probe("half-finished")

    def request(self, environments: Any, versions: Any) -> None:
        """Write the words one by one and ring at the end."""
        for environment, version in zip(environments.tolist(), versions.tolist(), strict=True):
            self._exchange.version[environment] = version
            self._exchange.state[environment] = REQUESTED
            self._probe("half-requested")
        self._exchange.request(environments, versions)

    def serve(self, environments: Any) -> None:
        """Write the words one by one and ring at the end."""
        for environment in environments.tolist():
            self._exchange.state[environment] = SERVED
            self._probe("half-served")
        self._exchange.serve(environments)


class MortalCrew(InlineCrew):
    """Roles in this process that take turns in a drawn order and die at drawn points.

    A role that dies is left as it stood, and another one takes its place, as after SIGKILL.
    """

    def __init__(self, plan: CrewPlan, rng: random.Random, rate: float):
        super().__init__(self._torn(plan), probe_factory=lambda: self._maybe_die)
        self.deaths: list[str] = []
        self._rng = rng
        self._rate = rate
        self._mortal = True

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Let roles work until `until()` holds, and some of them further if they can."""
        turns = 0
        while not until():
            turns += 1
            assert turns < MOST_TURNS, "everybody waits in vain"
            self._live(self._rng.randrange(len(self._roles)))
        for _ in range(self._rng.randrange(30)):
            self._live(self._rng.randrange(len(self._roles)))
        return True

    def _live(self, place: int) -> None:
        name, index, role, row = self._roles[place]
        if role.due_seconds():
            time.sleep(1e-5)
        try:
            role.advance()
        except Died:
            self._mortal = False
            context = SharedRoleContext(
                index,
                self.arrays,
                self.exchange,
                self._slots,
                row,
                self._plan.start_of(name, index),
                self._probe,
                self._leaving,
            )
            self._roles[place] = (name, index, self._plan.factory(name)(context), row)
            self._mortal = True

    def start(self) -> None:
        """Build every role; no process dies of that."""
        self._mortal = False
        super().start()
        self._mortal = True

    def _maybe_die(self, point: str) -> None:
        if self._mortal and self._rng.random() < self._rate:
            self.deaths.append(point)
            raise Died

    @staticmethod
    def _torn(plan: CrewPlan) -> CrewPlan:
        def torn(factory: Any) -> Any:
            def build(context: Any) -> Any:
                context.exchange = TornExchange(context.exchange, context.probe)
                return factory(context)

            return build

        actor = torn(plan.actor) if plan.actor else None
        return replace(plan, executor=torn(plan.executor), actor=actor)
