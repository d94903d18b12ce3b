"""Checks of an environment's own code, in its first episode: what reset and step return."""

import logging
import math
import numbers
from contextlib import nullcontext
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from drumline.envs.environment import EnvironmentProblem, LateFault
from drumline.errors import words_of
from drumline.functional.torch_threads import torch_settings_kept

_LOGGER = logging.getLogger("drumline")
_STEP = "(observation, reward, terminated, truncated, info)"
NO_NUMBER = (TypeError, ValueError, OverflowError)
"""Errors of `float` for a reward that is no number, or an int beyond every float."""
NUMBERS = "biuf"
"""Kinds of NumPy's dtypes of real numbers."""


class CheckedEnvironment:
    """An environment whose first episode is checked; later ones go straight to it.

    A fault in the form of what `reset` and `step` return raises `EnvironmentProblem`, which says
    what to return instead. Observations outside their space are only logged, once.

    What a reset, or a step of the first episode, sets of torch is put back: it would hold in this
    process alone, and the layout decides what else computes there.
    """

    def __init__(self, environment: Any, env_id: str, *, foreign: bool = True):
        """`foreign`: the environment is not Drumline's own, so it may use torch."""
        self._environment = environment
        self._id = env_id
        self._foreign = foreign
        self._kept = torch_settings_kept if foreign else nullcontext
        self.observation_space = space_of(environment, env_id, "observation_space")
        self.action_space = space_of(environment, env_id, "action_space")
        self._resets = 0
        self._steps = 0
        self._warned = False

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Start an episode; what the first call returns is checked."""
        try:
            with self._kept():
                returned: Any = self._environment.reset(seed=seed)
        except TypeError as error:
            called = error.__traceback__
            if "seed" in words_of(error) and called is not None and called.tb_next is None:
                self._refuse(
                    "reset() takes no seed, so no episode could be repeated: write def "
                    "reset(self, *, seed=None, options=None), and in it super().reset(seed=seed)"
                )
            raise
        self._resets += 1
        if self._resets == 2:  # from now on without a call in between
            self.step = self._environment.step
            if not self._foreign:
                self.reset = self._environment.reset
        if self._resets == 1:
            if not isinstance(returned, tuple):
                self._refuse(
                    f"reset() returned {_kind(returned)} instead of (observation, info): "
                    "return observation, {}"
                )
            if len(returned) != 2 or not isinstance(returned[1], dict):
                self._refuse(
                    f"reset() returned {_kinds(returned)} instead of (observation, info), "
                    "whose info is a dict"
                )
            self._check_observation("reset()", returned[0])
        return returned

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take a step; those of the first episode are checked."""
        with self._kept():
            returned: Any = self._environment.step(action)
        if self._resets <= 1:
            self._steps += 1
            self._check_step(returned)
        return returned

    @property
    def checked(self) -> Any:
        """Return the environment itself."""
        return self._environment

    def info_of_last_step(self) -> dict[str, Any]:
        """Return the `info` of the last step of an environment that makes it only if asked."""
        asked = getattr(type(self._environment), "info_of_last_step", None)
        return {} if asked is None else asked(self._environment)

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_environment":  # a copy or unpickling asks before there is one
            raise AttributeError(name)
        return getattr(self._environment, name)

    def _check_step(self, returned: Any) -> None:
        if not isinstance(returned, tuple) or len(returned) != 5:
            old = isinstance(returned, tuple) and len(returned) == 4
            hint = " (four values are Gym's old form)" if old else ""
            self._refuse(f"step() returned {_kinds(returned)} instead of {_STEP}{hint}")
        values: Any = returned
        observation, reward, terminated, truncated, info = values
        self._check_observation("step()", observation)
        if not _is_number(reward):
            self._refuse(f"step() returned {_kind(reward)} as reward: return a number, as float(x)")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not np.isscalar(flag) or flag not in (0, 1):
                self._refuse(f"step() returned {_kind(flag)} as {name}: return True or False")
        if not isinstance(info, dict):
            self._refuse(f"step() returned {_kind(info)} as info: return a dict, as {{}}")

    def _check_observation(self, call: str, observation: Any) -> None:
        space = self.observation_space
        if not isinstance(observation, (np.ndarray, np.generic)):
            self._refuse(
                f"{call} returned {_kind(observation)} as observation: return a NumPy array, as "
                f"np.asarray(observation, np.{space.dtype})"
            )
        if observation.shape != space.shape:
            self._refuse(
                f"{call} returned an observation of shape {list(observation.shape)}, but the "
                f"observation_space has {list(space.shape)}: make both the same"
            )
        if not np.issubdtype(observation.dtype, np.number) and observation.dtype != np.bool_:
            self._refuse(f"{call} returned an observation of {observation.dtype}, not of numbers")
        if space.dtype == np.uint8 and observation.dtype != np.uint8:
            self._refuse(
                f"{call} returned an observation of {observation.dtype}, but the observation_space "
                "has bytes (uint8): return observation.astype(np.uint8)"
            )
        if not np.can_cast(observation.dtype, space.dtype, "same_kind"):
            self._refuse(
                f"{call} returned an observation of {observation.dtype}, which the "
                f"observation_space of {space.dtype} would cut: make both the same"
            )
        low: Any = getattr(space, "low", -np.inf)
        high: Any = getattr(space, "high", np.inf)
        if not self._warned and bool(
            np.any(np.less(observation, low) | np.greater(observation, high))
        ):
            self._warned = True
            _LOGGER.warning(
                "%s: %s returned an observation outside the observation_space %s (step %d of the "
                "first episode): a policy is scaled for what the space says",
                self._id,
                call,
                space,
                self._steps,
            )

    def _refuse(self, fault: str) -> NoReturn:
        raise EnvironmentProblem(f"{self._id}: {fault}")


def refused_observation(observation: Any, shape: tuple[int, ...], place: str) -> LateFault:
    """Return the error of a later episode's observation that is not an array like its space's."""
    if isinstance(observation, np.ndarray) and observation.size == math.prod(shape):
        return LateFault(
            f"the observation is an array of {observation.dtype} in {place}, not of numbers"
        )
    return LateFault(
        f"the observation is {_kind(observation)} in {place}, but the observation_space has "
        f"{list(shape)}: make both the same"
    )


def refused_reward(reward: Any, place: str) -> LateFault:
    """Return the error of a later episode's reward that is no number."""
    beyond = " beyond the range of floats" if _is_number(reward) else ""
    return LateFault(
        f"the reward is {_kind(reward)}{beyond} in {place}: return a number, as float(x)"
    )


def space_of(environment: Any, env_id: str, name: str) -> Any:
    """Return an environment's space; EnvironmentProblem if there is none, or not Gymnasium's."""
    from gymnasium import Space

    space = getattr(environment, name, None)
    if space is None:
        raise EnvironmentProblem(f"{env_id}: it has no {name}: set self.{name} in __init__")
    if not isinstance(space, Space):
        kind = f"{type(space).__module__}.{type(space).__name__}"
        raise EnvironmentProblem(
            f"{env_id}: its {name} is a {kind}, no space of Gymnasium: take one of gymnasium.spaces"
        )
    return space


def _is_number(value: Any) -> bool:
    """Return whether a reward is a real number, alone or in an array without axes."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in NUMBERS
    return isinstance(value, (numbers.Real, Decimal, np.bool_))


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _kinds(returned: Any) -> str:
    if not isinstance(returned, tuple):
        return _kind(returned)
    return f"{len(returned)} values ({', '.join(map(_kind, returned))})"
