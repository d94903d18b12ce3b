"""A step of a Gymnasium task that makes the same bits in less time.

A lean environment holds Gymnasium's own and shares its simulation. Resets are Gymnasium's, and so
is a step with an action of an unusual form. The lean step reads the simulation's arrays through
views that are made once, and computes what observation, reward and end need. `advance` writes the
observation where its caller wants it. `step` builds no `info` unless the episode terminates;
`info()` gives that of the last step.

Every expression keeps Gymnasium's order of operations and its precision: a cost of float32 actions
is a float32, and sines are NumPy's where Gymnasium's are, because `math.sin` has another last bit
on some processors. Constants are the default arguments of Gymnasium's constructors.
"""

from typing import Any, ClassVar

import numpy as np

Step = tuple[Any, Any, bool, bool, dict[str, Any]]
Outcome = tuple[Any, bool]
"""Reward of a step, and whether the episode terminated."""


class LeanEnvironment:
    """A task of Gymnasium's with another `step`; each subclass is one task."""

    AT_ONCE: ClassVar[int] = 16
    """Episodes that a worker runs side by side; it influences no bit."""

    def __init__(self, environment: Any):
        self.observation_space = environment.observation_space
        self.action_space = environment.action_space
        self._environment = environment
        self._observed = environment.observation_space.shape, environment.observation_space.dtype
        self._gymnasiums: dict[str, Any] | None = None  # `info` of a step that Gymnasium made

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Start an episode as Gymnasium does."""
        return self._environment.reset(seed=seed)

    def step(self, action: Any) -> Step:
        """Return the same as Gymnasium's step, except that `info` may be empty."""
        if not self._usual(action):
            returned = self._environment.step(action)
            self._gymnasiums = returned[4]
            return returned
        self._gymnasiums = None
        shape, dtype = self._observed
        observation = np.empty(shape, dtype)
        reward, terminated = self.advance(action, observation)
        return observation, reward, terminated, False, self._details() if terminated else {}

    def advance(self, action: Any, observation: np.ndarray) -> Outcome:
        """Make one step and write its observation `[D]`.

        The action is one of the space, an `int` or an array, and the episode has begun and goes on.
        """
        raise NotImplementedError

    def _usual(self, action: Any) -> bool:
        """Return whether `advance` can make this step."""
        raise NotImplementedError

    def info(self) -> dict[str, Any]:
        """Return the `info` that Gymnasium gives with the last step."""
        return self._details() if self._gymnasiums is None else self._gymnasiums

    info_of_last_step = info

    @property
    def bare(self) -> Any:
        """Return Gymnasium's environment."""
        return self._environment

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_environment":  # a copy or unpickling asks before there is one
            raise AttributeError(name)
        return getattr(self._environment, name)

    def _details(self) -> dict[str, Any]:
        return {}
