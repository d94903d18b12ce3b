"""Streams that the tests of lanes compare: the whole of each environment, byte for byte."""

from typing import Any

import gymnasium
import numpy as np

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.lanes import LaneHistory, Lanes, Steps
from drumline.envs.lanes_spec import LanesSpec

DRIFTING = EnvironmentSpec("lane_environments:drifting")
GYMNASIUM_CARTPOLE = EnvironmentSpec("CartPole-v1")
CARTPOLE = EnvironmentSpec("CartPole-v1", "envpool", options={"max_episode_steps": 20})
HALF_CHEETAH = EnvironmentSpec("HalfCheetah-v5", "envpool", options={"max_episode_steps": 9})
PONG = EnvironmentSpec("Pong-v5", "envpool", options={"max_episode_steps": 12})
SPECS = [DRIFTING, GYMNASIUM_CARTPOLE, CARTPOLE, HALF_CHEETAH]


def name(spec: EnvironmentSpec) -> str:
    return f"{spec.engine}-{spec.id}"


def actions_of(space: Any, environment: int, count: int) -> np.ndarray:
    """The actions of one environment, the same however it is grouped."""
    rng = np.random.default_rng(1000 + environment)
    if isinstance(space, gymnasium.spaces.Box):
        return rng.uniform(space.low, space.high, (count, *space.shape))
    if space.n == 4:  # Drifting: long episodes among short ones
        return rng.choice(4, count, p=[0.85, 0.05, 0.05, 0.05])
    return rng.integers(space.n, size=count)


class Stream:
    """One environment's rows as bytes, and what a journal would hold."""

    def __init__(self, first: np.ndarray):
        self.rows = [first.tobytes()]
        self.actions: list[np.ndarray] = []
        self.ended: list[bool] = []
        self.terminations = 0
        self.truncations = 0

    def add(self, action: np.ndarray, steps: Steps, row: int, number: int) -> None:
        final = b""
        if steps.truncated[row]:
            place = int(np.flatnonzero(steps.truncated).tolist().index(row))
            final = steps.final_observations[place].tobytes()
        flags = (bool(steps.terminated[row]), bool(steps.truncated[row]))
        reward = steps.rewards[row].tobytes()
        self.rows.append(steps.observations[row].tobytes() + reward + final + repr(flags).encode())
        self.rows.append(str(number).encode())
        self.actions.append(np.array(action))
        self.ended.append(any(flags))
        self.terminations += flags[0]
        self.truncations += flags[1]


class Driver:
    """Steps lanes, each to its own count, and keeps what came."""

    def __init__(self, lanes: Lanes, first: int, longest: int, renewal: int = 0):
        self.lanes = lanes
        numbers = range(first, first + lanes.count)
        self.actions = [actions_of(lanes.action_space, number, longest) for number in numbers]
        self.streams = [Stream(row) for row in lanes.begin(renewal)]

    def step(self, chosen: np.ndarray | None) -> Steps:
        rows = range(self.lanes.count) if chosen is None else chosen.tolist()
        actions = [self.actions[lane][len(self.streams[lane].actions)] for lane in rows]
        steps = self.lanes.step(chosen, np.stack(actions))
        for row, lane in enumerate(rows):
            number = int(self.lanes.episode[lane])
            self.streams[lane].add(actions[row], steps, row, number)
        return steps

    def run(self, counts: list[int], rng: np.random.Generator | None = None) -> None:
        """Step every lane to its count, all lanes that lack steps at once or a random choice."""
        while True:
            lacking = [
                len(s.actions) < count for s, count in zip(self.streams, counts, strict=True)
            ]
            chosen = np.flatnonzero(lacking)
            if not len(chosen):
                return
            if rng is not None:
                chosen = np.sort(rng.choice(chosen, rng.integers(1, len(chosen) + 1), False))
            self.step(None if len(chosen) == self.lanes.count else chosen)


def streams(
    spec: EnvironmentSpec, groups: list[int], steps: int, seed: int | None = None
) -> list[list[bytes]]:
    """The streams of `sum(groups)` environments in lanes of these sizes."""
    rows: list[list[bytes]] = []
    for size in groups:
        lanes = LanesSpec(spec, 7, len(rows), size)()
        driver = Driver(lanes, len(rows), steps)
        driver.run([steps] * size, None if seed is None else np.random.default_rng(seed))
        lanes.close()
        rows += [stream.rows for stream in driver.streams]
    return rows


def history(
    stream: Stream, shape: tuple[int, ...], renewal: int, first_episode: int
) -> LaneHistory:
    """The journal of one stream from its beginning."""
    actions = np.array(stream.actions).reshape(len(stream.actions), *shape)
    return LaneHistory(renewal, first_episode, actions, np.array(stream.ended, bool))
