"""Lanes: many environments of one process as one transition stream, alike for every engine."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from drumline import seeding
from drumline.envs.environment import EnvironmentProblem
from drumline.envs.observation_spaces import check_array


class Steps(NamedTuple):
    """One step of `m` lanes; the lanes may overwrite the arrays at their next call."""

    observations: np.ndarray
    """`[m, ...]`: the policy's next input; after an end the new episode's first observation."""
    rewards: np.ndarray
    """`[m]` float32, raw."""
    terminated: np.ndarray
    """`[m]` bool."""
    truncated: np.ndarray
    """`[m]` bool; never together with `terminated`, which has priority."""
    final_observations: np.ndarray
    """`[j, ...]`: last observations of the episodes in `np.flatnonzero(truncated)`, in order."""


class LaneHistory(NamedTuple):
    """A lane's history: replaying it brings the lane to its present state."""

    renewal: int
    """EnvPool: number of the renewal that made the pool; Gymnasium: 0."""
    episode: int
    """Number of the running episode at the first row."""
    actions: np.ndarray
    """`[r, ...]`: every action since that episode's (Gymnasium) or renewal's (EnvPool) start."""
    ended: np.ndarray
    """`[r]` bool: whether the episode ended at that step."""

    @property
    def running(self) -> int:
        """Return the number of steps of the running episode."""
        ended = np.flatnonzero(self.ended)
        return len(self.ended) - (int(ended[-1]) + 1 if len(ended) else 0)


Replaying = Callable[[int], None]
"""Hears the number of env steps that were just replayed; 0 for an environment that was started."""


def unheard(steps: int) -> None:
    """Hear replayed steps and do nothing."""


class Lanes(Protocol):
    """Environments `first … first + count - 1` as lanes `0 … count - 1`; no phantom steps."""

    count: int
    needs_renewal: bool
    """Whether exact restore needs `renew`: the engine cannot restart an episode from a seed."""
    limit: int
    """Steps after which an episode is cut at the latest; 0: none is known."""
    endless: bool
    """Whether episodes have no time limit and a restore repeats them from their start."""
    observation_space: Any
    action_space: Any
    stack: int
    """Frames stacked along the first axis of an observation, oldest first; 1: no stack."""
    episode: np.ndarray
    """`[count]` int64: number of each lane's running episode since `begin`."""
    scores: np.ndarray | None
    """`[count]` float32: the engine's reward at each lane's last step, if ours differs."""

    def begin(self, renewal: int) -> np.ndarray:
        """Start episode 0 of every lane; return the first observations `[count, ...]`."""
        ...

    def step(self, lanes: np.ndarray | None, actions: np.ndarray) -> Steps:
        """Step these lanes (sorted, unique; None: all) with one action each, in that order.

        Discrete actions count from 0, whatever the start of the space; continuous ones are clipped.
        """
        ...

    def renew(self, renewal: int) -> np.ndarray:
        """Cut the running episodes and make every environment anew with this renewal's seeds."""
        ...

    def steps_to_replay(self, histories: Sequence[LaneHistory]) -> int:
        """Return the number of env steps that `restore` makes."""
        ...

    def restore(
        self, histories: Sequence[LaneHistory], replaying: Replaying = unheard
    ) -> np.ndarray:
        """Bring every lane to the end of its history; return its observations there."""
        ...

    def close(self) -> None:
        """Close the environments."""
        ...


class NotReproducible(RuntimeError):
    """An environment that behaved differently when it was replayed from its seed."""


class ActionForm:
    """Conversion of action rows for an environment: shape checked, its dtype, clipped to bounds."""

    def __init__(self, space: Any, env_id: str, dtype: Any = None):
        from gymnasium.spaces import Box, Discrete, MultiDiscrete

        if not isinstance(space, (Box, Discrete, MultiDiscrete)) or not _has_a_head(space):
            box = isinstance(space, Box)
            other = "es, td3 and aes take a Box of floats of any shape, and " if box else ""
            raise EnvironmentProblem(
                f"{env_id} has {type(space).__name__} actions ({space}); this method serves "
                "Discrete, and MultiDiscrete and Box of floats in one dimension: wrap the "
                f"environment ({other}gymnasium.wrappers.TransformAction gives it another space) "
                "and name your factory as module:factory"
            )
        check_array(space, env_id, "actions")
        self.dtype = np.dtype(space.dtype if dtype is None else dtype)
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self._start: Any = 0 if isinstance(space, Box) else space.start
        self._shifted = bool(np.any(self._start))
        self._clips = isinstance(space, Box)
        if isinstance(space, Box):
            self._low, self._high = space.low, space.high

    def __call__(self, actions: np.ndarray, count: int) -> np.ndarray:
        """Return a new array of `count` actions in the environment's form."""
        if actions.shape != (count, *self.shape):
            raise ValueError(
                f"{count} lanes take actions of shape {(count, *self.shape)}, got {actions.shape}"
            )
        if self._clips:
            return np.clip(actions, self._low, self._high).astype(self.dtype)
        return (actions + self._start if self._shifted else actions).astype(self.dtype)


def _has_a_head(space: Any) -> bool:
    """Return whether actions of a Discrete, MultiDiscrete or Box have a head in `policies`."""
    if hasattr(space, "low"):
        return len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)
    return not hasattr(space, "nvec") or space.nvec.ndim == 1


def episode_seed(root_seed: int, environment: int, episode: int) -> int:
    """Return the seed of one episode of one environment, the same in every layout."""
    return seeding.seeds(root_seed, 1, "episode", environment, episode)[0]


def renewal_seed(root_seed: int, environment: int, renewal: int) -> int:
    """Return the seed with which one environment is made at a renewal."""
    return seeding.seeds(root_seed, 1, "renewal", environment, renewal)[0]
