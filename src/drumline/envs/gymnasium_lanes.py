"""A list of Gymnasium environments as lanes: every episode starts from its own seed."""

import time
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from drumline.envs.environment import EnvironmentSpec, LateFault
from drumline.envs.interface import NO_NUMBER, refused_observation, refused_reward
from drumline.envs.lanes import (
    ActionForm,
    LaneHistory,
    NotReproducible,
    Replaying,
    Steps,
    episode_seed,
    unheard,
)
from drumline.envs.lean_batches import Batch, fitting
from drumline.envs.make import MadeEnvironment, lean_environment, make_environment
from drumline.envs.observation_spaces import check_observations
from drumline.functional.torch_threads import one_torch_thread

_SLOW_SECONDS = 0.1
"""Seconds of steps that are long enough to be counted one by one as signs of life."""


class GymnasiumLanes:
    """Steps its environments one after the other, or in one call, and counts the time limit."""

    needs_renewal = False
    scores: np.ndarray | None = None

    def __init__(
        self,
        spec: EnvironmentSpec,
        root_seed: int,
        first: int,
        count: int,
        made: Callable[[], None] = lambda: None,
    ):
        """Call `made` after each environment that was made or reset, and, where steps are slow,
        after each that was stepped: several that are slow together are no hang.
        """
        self._sign = made
        self._slow = False
        self._made: list[MadeEnvironment] = []
        for _ in range(count):
            self._made.append(make_environment(spec))
            made()
        self.count = count
        self.episode = np.zeros(count, np.int64)
        self._environments = [one.environment for one in self._made]
        self._step = [environment.step for environment in self._environments]
        self._limit = self._made[0].limit
        limits = self._limit, self._made[0].wrapped_limit
        self.limit = min(filter(None, limits), default=0)
        self.endless = not self.limit
        self.stack = self._made[0].stack
        self._elapsed: Any = [0] * count
        self._id = spec.id
        self._root_seed = root_seed
        self._first = first
        space = self._environments[0].observation_space
        check_observations(space, spec.id)
        self.observation_space = space
        self.action_space = self._environments[0].action_space
        self._form = ActionForm(self.action_space, spec.id)
        self._all = range(count)
        self._size = int(np.prod(space.shape))
        self._observations = np.zeros((count, *space.shape), space.dtype)
        self._no_final = np.zeros((0, *space.shape), space.dtype)
        found = map(lean_environment, self._environments)
        self._lean = [one for one in found if one is not None]
        self._batch = fitting(self._lean) if len(self._lean) == count else None
        if self._batch is not None:
            self._states = np.zeros((self._batch.size, count))
            self._elapsed = np.zeros(count, np.int64)

    @one_torch_thread()
    def begin(self, renewal: int) -> np.ndarray:
        """Start episode 0 of every lane."""
        self.episode[:] = 0
        for lane in self._all:
            self._observations[lane] = self._start(lane)
        return self._observations

    @one_torch_thread()
    def step(self, lanes: np.ndarray | None, actions: np.ndarray) -> Steps:
        """Step these lanes; a lane whose episode ends starts the next one at once."""
        chosen: Sequence[int] = self._all if lanes is None else lanes.tolist()
        count = len(chosen)
        formed = self._form(actions, count)
        if self._batch is not None:
            return self._together(self._batch, lanes, chosen, formed)
        # Discrete environments expect an int, and index faster with it than with an array scalar.
        rows: Any = formed.tolist() if formed.ndim == 1 and formed.dtype.kind == "i" else formed
        observations = self._observations[:count]
        rewards: list[Any] = [0.0] * count
        ends: list[int] = []
        cuts: list[int] = []
        final: list[np.ndarray] = []
        elapsed, limit, step, slow = self._elapsed, self._limit, self._step, self._slow
        size = self._size
        began = time.perf_counter()
        for row, lane in enumerate(chosen):
            observation, rewards[row], terminated, truncated, _ = step[lane](rows[row])
            if slow:
                self._sign()
            elapsed[lane] = length = elapsed[lane] + 1
            if type(observation) is not np.ndarray or observation.size != size:
                self._check_size(observation, lane)  # NumPy stretches a single number to a row
            if terminated:
                ends.append(row)
            elif truncated or length == limit:
                cuts.append(row)
                final.append(np.array(observation, observations.dtype))
            else:
                observations[row] = observation
                continue
            self.episode[lane] += 1
            observations[row] = self._start(lane)
        self._slow = time.perf_counter() - began > _SLOW_SECONDS
        is_terminated, is_truncated = np.zeros(count, bool), np.zeros(count, bool)
        if ends:
            is_terminated[ends] = True
        if cuts:
            is_truncated[cuts] = True
        return Steps(
            observations,
            self._told(rewards, chosen, ends + cuts),
            is_terminated,
            is_truncated,
            np.stack(final) if final else self._no_final,
        )

    def _together(
        self, batch: Batch, lanes: np.ndarray | None, chosen: Sequence[int], actions: np.ndarray
    ) -> Steps:
        """Step these lanes in one call; their environments only reset."""
        at: Any = slice(None) if lanes is None else lanes
        self._states[:, at], observations, rewards, terminated = batch.step(
            self._states[:, at], actions
        )
        self._elapsed[at] += 1
        truncated = (self._elapsed[at] == self._limit) & ~terminated
        final = observations[truncated]
        for row in np.flatnonzero(terminated | truncated).tolist():
            self.episode[chosen[row]] += 1
            observations[row] = self._start(chosen[row])
        return Steps(observations, rewards.astype(np.float32), terminated, truncated, final)

    def renew(self, renewal: int) -> np.ndarray:
        """Raise RuntimeError: a Gymnasium episode restarts from its seed."""
        raise RuntimeError("Gymnasium lanes need no renewal (needs_renewal is False)")

    def steps_to_replay(self, histories: Sequence[LaneHistory]) -> int:
        """Return the number of steps of all running episodes."""
        return sum(history.running for history in histories)

    @one_torch_thread()
    def restore(
        self, histories: Sequence[LaneHistory], replaying: Replaying = unheard
    ) -> np.ndarray:
        """Replay the newest episode of every lane."""
        if len(histories) != self.count:
            raise ValueError(f"{self.count} lanes take as many histories, got {len(histories)}")
        for lane, history in enumerate(histories):
            newest = len(history.ended) - history.running
            self.episode[lane] = history.episode + int(np.count_nonzero(history.ended))
            self._observations[lane] = self._start(lane)
            replaying(0)
            self._replay(lane, history.actions[newest:], replaying)
        return self._observations

    def close(self) -> None:
        """Close every environment."""
        for made in self._made:
            made.close()

    def _start(self, lane: int) -> Any:
        self._elapsed[lane] = 0
        seed = episode_seed(self._root_seed, self._first + lane, int(self.episode[lane]))
        observation = self._environments[lane].reset(seed=seed)[0]
        self._check_size(observation, lane)
        self._sign()
        self._step[lane] = self._environments[lane].step  # without checks after the first episode
        self._load(lane)
        return observation

    def _check_size(self, observation: Any, lane: int) -> None:
        """Raise LateFault for an observation of another size than the space's."""
        if np.asarray(observation).size != self._size:
            place = f"{self._episode(lane)}, step {self._elapsed[lane]}"
            raise refused_observation(observation, self.observation_space.shape, place)

    def _episode(self, lane: int, before: int = 0) -> str:
        """Return the words for a lane's running episode, or for the one `before` it."""
        environment, episode = self._first + lane, int(self.episode[lane]) - before
        seed = episode_seed(self._root_seed, environment, episode)
        return f"environment {environment} of {self._id}, episode {episode} (seed {seed})"

    def _told(
        self, rewards: Sequence[Any], chosen: Sequence[int], over: Container[int]
    ) -> np.ndarray:
        """Return the rewards `[m]` float32; LateFault if one is no number."""
        try:
            told = np.array(rewards, np.float32)
            if told.ndim == 1:
                return told
        except NO_NUMBER:
            pass  # which one it is, and whether `float` takes it, shows one by one
        single: list[float] = []
        for row, (lane, reward) in enumerate(zip(chosen, rewards, strict=True)):
            try:
                single.append(float(reward))
            except NO_NUMBER as error:
                raise self._refused_reward(reward, lane, row in over) from error
        return np.array(single, np.float32)

    def _refused_reward(self, reward: Any, lane: int, over: bool) -> LateFault:
        if over:  # the next episode has begun
            place = f"{self._episode(lane, before=1)}, its last step"
        else:
            place = f"{self._episode(lane)}, step {self._elapsed[lane]}"
        return refused_reward(reward, place)

    def _load(self, lane: int) -> None:
        """Take a lane's state from its environment, where a batch makes the steps."""
        if self._batch is not None:
            self._states[:, lane] = self._lean[lane].bare.state

    def _replay(self, lane: int, actions: np.ndarray, replaying: Replaying) -> None:
        formed = self._form(actions, len(actions))
        rows: Any = formed.tolist() if formed.ndim == 1 and formed.dtype.kind == "i" else formed
        for row in rows:
            observation, _, terminated, truncated, _ = self._step[lane](row)
            self._elapsed[lane] += 1
            self._check_size(observation, lane)
            if terminated or truncated or self._elapsed[lane] == self._limit:
                raise NotReproducible(
                    f"environment {self._first + lane} ({self._id}) ended episode "
                    f"{self.episode[lane]} at step {self._elapsed[lane]} when it was replayed, "
                    "and did not before: it has state that its seed does not set"
                )
            self._observations[lane] = observation
            replaying(1)
        self._load(lane)
