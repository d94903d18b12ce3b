"""One episode: the inner loop of every method that evaluates whole episodes."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from math import isfinite
from typing import NamedTuple

import numpy as np

from drumline.envs.environment import Environment
from drumline.envs.interface import NO_NUMBER, NUMBERS, refused_observation, refused_reward
from drumline.envs.last_info import Numbers, numbers_of
from drumline.functional.torch_threads import one_torch_thread
from drumline.protocols import Policy

NOISE_BLOCK = 128
"""Steps of action noise drawn at once; a small block keeps short episodes cheap."""
WITHDRAWN_EVERY = 64


_INFINITY = float("inf")
GREATEST = 1e100
"""Bound of a return: greater ones have means and deviations that are no numbers any more."""
_LARGEST = float(np.finfo(np.float32).max)
_FEW = 32
"""Values of an observation up to which a sum in Python takes less time than a product in NumPy."""


class NonFinite(RuntimeError):
    """An environment or policy gave NaN, ±∞ or a return beyond ±`GREATEST`, in the named step."""


def storable(reward: float) -> bool:
    """Return whether a reward is finite in float32, the replay's dtype.

    >>> storable(-3.5), storable(1e39), storable(float("nan"))
    (True, False, False)
    """
    return bool(abs(reward) <= _LARGEST)


class Episode(NamedTuple):
    """Result of an episode; `length` counts agent decisions."""

    episode_return: float
    sign_return: float
    length: int
    observations: np.ndarray | None
    """The observations `[T, D]` that actions were chosen from, if asked for."""
    digest: bytes
    numbers: Numbers = ()
    """Numbers in the last step's `info`, if asked for."""


class Opening:
    """First reset and first step of an environment, which may compile or load for minutes.

    They are made inside `building`, which allows more time before they count as a hang.
    """

    def __init__(self, building: Callable[[], AbstractContextManager[object]] = nullcontext):
        self._building = building
        self._entered = ExitStack()
        self._ahead = True

    def begin(self) -> None:
        """Enter `building` if no step has been made yet; an error before may have left it open."""
        if self._ahead:
            self._entered.close()
            self._entered.enter_context(self._building())

    def end(self) -> None:
        """Leave `building` for good, after a step; later calls do nothing."""
        if self._ahead:
            self._ahead = False
            self._entered.close()


class EpisodeLoop:
    """Runs episodes of one environment with one policy; its buffers are made once."""

    def __init__(
        self,
        environment: Environment,
        policy: Policy,
        where: str,
        building: Callable[[], AbstractContextManager[object]] = nullcontext,
    ):
        self.opening = Opening(building)
        self._environment = environment
        self._output = policy.output
        self._to_action = policy.to_action
        self._where = where
        space = environment.observation_space
        self._shape: tuple[int, ...] = tuple(space.shape)
        self._size = size = int(np.prod(space.shape))
        self._rows = np.empty((256, size))
        self._floats = space.dtype.kind == "f"  # others are finite
        self._few = self._floats and len(space.shape) == 1 and size <= _FEW

    @one_torch_thread()
    def run(
        self,
        seed: int,
        limit: int,
        *,
        noise: Callable[[], np.ndarray] | None = None,
        count_signs: bool = False,
        keep_observations: bool = False,
        keep_numbers: bool = False,
        digest: bool = False,
        progress: Callable[[int], None],
        withdrawn: Callable[[], bool],
    ) -> Episode:
        """Run from `reset(seed)` to the end, to `limit` decisions, or until withdrawn.

        `noise` draws a block `[128, A]` of action noise, one row per step.
        """
        step, output, to_action = self._environment.step, self._output, self._to_action
        self.opening.begin()
        observation, _ = self._environment.reset(seed=seed)
        hasher = hashlib.sha256() if digest else None
        block = np.empty((0, 0))
        total, signs, length = 0.0, 0.0, 0
        size, few, many = self._size, self._few, self._floats
        while True:
            # Normalisation and tanh would hide infinity, and NumPy stretches a single number to the
            # size of a buffer. Whether kept rows are finite is checked at the end.
            if keep_observations:
                self._keep(observation, seed, length)
            elif few:
                try:
                    values = observation.tolist()
                    usual = isfinite(sum(values)) and len(values) == size
                except (AttributeError, TypeError):  # rows, or no array, after the first episode
                    usual = False
                if not usual:
                    self._refuse(observation, seed, length)
            elif (
                type(observation) is not np.ndarray
                or observation.size != size
                or (many and not np.vdot(observation, observation) < _INFINITY)
            ):
                self._refuse(observation, seed, length)
            out = output(observation)
            if out[0] != out[0]:
                raise NonFinite(self._blame(observation, seed, length))
            if noise is not None:
                row = length % NOISE_BLOCK
                if row == 0:
                    block = noise()
                action = to_action(out, block[row])
            else:
                action = to_action(out, None)
            observation, reward, terminated, truncated, info = step(action)
            if not length:
                self.opening.end()
            try:
                total += float(reward)  # float32 rewards would be added up in float32
            except NO_NUMBER as error:
                raise refused_reward(reward, self._place(seed, length)) from error
            if not -GREATEST < total < GREATEST:
                place = self._place(seed, length)
                raise NonFinite(f"the reward is {reward} in {place}: the return is {total}")
            if count_signs:
                signs += float(np.sign(reward))
            length += 1
            progress(1)
            if hasher is not None:
                hasher.update(np.ascontiguousarray(observation).tobytes())
                hasher.update(np.float64(reward).tobytes())
            if terminated or truncated or length == limit:
                break
            if length % WITHDRAWN_EVERY == 0 and withdrawn():
                break
        rows = self._rows[:length] if keep_observations else None
        if rows is not None and not np.isfinite(rows).all():
            first = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise NonFinite(self._blame(rows[first], seed, first))
        digest_of = hasher.digest() if hasher else b""
        numbers = numbers_of(self._environment, info) if keep_numbers else ()
        return Episode(float(total), signs, length, rows, digest_of, numbers)

    def _keep(self, observation: np.ndarray, seed: int, length: int) -> None:
        if length == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        try:
            row = observation.reshape(-1)
            self._rows[length] = row
        except (AttributeError, TypeError, ValueError):
            self._refuse(observation, seed, length)
            raise
        if len(row) != self._size:
            self._refuse(observation, seed, length)

    def _refuse(self, observation: np.ndarray, seed: int, length: int) -> None:
        """Raise for values that are not finite, or not as many numbers as the space has.

        Rows may have the right size, and of finite values the sum or the square may be infinite.
        """
        values = np.asarray(observation)
        if values.size != self._size or values.dtype.kind not in NUMBERS:
            raise refused_observation(observation, self._shape, self._place(seed, length))
        if not np.isfinite(values).all():
            raise NonFinite(self._blame(values, seed, length))

    def _blame(self, observation: np.ndarray, seed: int, length: int) -> str:
        place = self._place(seed, length)
        values = np.asarray(observation, dtype=np.float64)
        if not np.isfinite(values).all():
            return f"the observation is {'NaN' if np.isnan(values).any() else 'inf'} in {place}"
        return f"the policy's output is NaN in {place}; its observation is finite"

    def _place(self, seed: int, length: int) -> str:
        return f"{self._where}, episode seed {seed}, step {length}"
