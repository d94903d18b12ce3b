"""Many environments of one process as one transition stream, the same for every engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from drumline import seeding
from drumline.envs.football import no_checkpoints
from drumline.envs.make import EnvironmentProblem, EnvironmentSpec
from drumline.envs.timing import StepTimeLaw, StepTimes


class Steps(NamedTuple):
    """One step of `m` lanes; the arrays are the lanes' own until their next call."""

    observations: np.ndarray
    """`[m, ...]`: what the policy sees next; after an end the new episode's first observation."""
    rewards: np.ndarray
    """`[m]` float32, raw."""
    terminated: np.ndarray
    """`[m]` bool."""
    truncated: np.ndarray
    """`[m]` bool; never together with `terminated`, which wins."""
    final_observations: np.ndarray
    """`[j, ...]`: last observations of the episodes in `np.flatnonzero(truncated)`, in order."""


class LaneHistory(NamedTuple):
    """What brings one lane back to where it stood."""

    renewal: int
    """EnvPool: which pool; Gymnasium: 0."""
    episode: int
    """Number of the running episode at the first row."""
    actions: np.ndarray
    """`[r, ...]`: every action since that episode's (Gymnasium) or renewal's (EnvPool) start."""
    ended: np.ndarray
    """`[r]` bool: whether the episode ended at that step."""


class Lanes(Protocol):
    """Environments `first … first + count - 1` as lanes `0 … count - 1`; no phantom steps."""

    count: int
    needs_renewal: bool
    """Whether exact restore needs `renew`: the engine cannot restart an episode from a seed."""
    observation_space: Any
    action_space: Any
    stack: int
    """Observations are stacks of so many frames along their first axis, oldest first; 1: none."""
    episode: np.ndarray
    """`[count]` int64: number of each lane's running episode since `begin`."""
    scores: np.ndarray | None
    """`[count]` float32: the engine's reward at each lane's last step, where ours is another."""

    def begin(self, renewal: int) -> np.ndarray:
        """Start episode 0 of every lane; returns the first observations `[count, ...]`."""
        ...

    def step(self, lanes: np.ndarray | None, actions: np.ndarray) -> Steps:
        """Step these lanes (sorted, unique; None: all) with one action each, in that order.

        Discrete actions count from 0, whatever the space's own start; continuous ones are clipped.
        """
        ...

    def renew(self, renewal: int) -> np.ndarray:
        """Cut the running episodes and make every environment anew with this renewal's seeds."""
        ...

    def restore(self, histories: Sequence[LaneHistory]) -> np.ndarray:
        """Bring every lane to the end of its history; returns the observations it stands at."""
        ...

    def close(self) -> None:
        """Free the environments."""
        ...


@dataclass(frozen=True)
class LanesSpec:
    """What is needed to make the same lanes in any process: call it."""

    environment: EnvironmentSpec
    root_seed: int
    first: int
    count: int
    step_time: StepTimeLaw | None = None
    """Makes the environments slow; the lanes do not sleep, `step_times` says when they are due."""
    checkpoints: bool = False
    """Football: pay for the way to the goal too; `Lanes.scores` keeps the goals."""
    threads: int = 1
    """EnvPool's own threads, which change no bit."""

    def __call__(self) -> Lanes:
        """Make the lanes; nothing is simulated before `begin` or `restore`."""
        if self.count < 1:
            raise ValueError(f"lanes need at least one environment, got {self.count}")
        if self.environment.engine == "envpool":
            from drumline.envs.envpool_lanes import EnvPoolLanes

            return EnvPoolLanes(
                self.environment,
                self.root_seed,
                self.first,
                self.count,
                self.checkpoints,
                threads=self.threads,
            )
        from drumline.envs.gymnasium_lanes import GymnasiumLanes

        lanes = GymnasiumLanes(self.environment, self.root_seed, self.first, self.count)
        if self.checkpoints:  # an id that Gymnasium lacks is refused as such, before the flag
            lanes.close()
            raise EnvironmentProblem(no_checkpoints(self.environment.id))
        return lanes

    def step_times(self) -> StepTimes | None:
        """Return the due times of these lanes' steps, if a law makes them slow."""
        if self.step_time is None:
            return None
        return StepTimes(self.step_time, self.root_seed, self.first, self.count)


class NotReproducible(RuntimeError):
    """An environment that, replayed from its seed, did something else than before."""


class ActionForm:
    """How action rows reach an environment: checked shape, its dtype, clipped to its bounds."""

    def __init__(self, space: Any, env_id: str, dtype: Any = None):
        kind = type(space).__name__
        if kind not in ("Discrete", "MultiDiscrete", "Box"):
            raise EnvironmentProblem(
                f"{env_id} has {kind} actions ({space}); lanes serve Discrete, MultiDiscrete and "
                "Box: wrap the environment and name your factory as module:factory"
            )
        self.dtype = np.dtype(space.dtype if dtype is None else dtype)
        self.shape: tuple[int, ...] = tuple(space.shape)
        self._start: Any = 0 if kind == "Box" else space.start
        self._shifted = bool(np.any(self._start))
        self._clips = kind == "Box"
        if kind == "Box":
            self._low, self._high = space.low, space.high

    def __call__(self, actions: np.ndarray, count: int) -> np.ndarray:
        """Return a new array of `count` actions as the environment wants them."""
        if actions.shape != (count, *self.shape):
            raise ValueError(
                f"{count} lanes take actions of shape {(count, *self.shape)}, got {actions.shape}"
            )
        if self._clips:
            return np.clip(actions, self._low, self._high).astype(self.dtype)
        return (actions + self._start if self._shifted else actions).astype(self.dtype)


def check_observations(space: Any, env_id: str) -> None:
    """Refuse observations that are not one array."""
    if type(space).__name__ != "Box":
        raise EnvironmentProblem(
            f"{env_id} has {type(space).__name__} observations and lanes take Box: wrap it "
            "in gymnasium.wrappers.FlattenObservation and name your factory as module:factory "
            "(EnvPool's cannot be wrapped: take the task from a Gymnasium package)"
        )


def episode_seed(root_seed: int, environment: int, episode: int) -> int:
    """Return the seed of one episode of one environment, wherever it runs (DESIGN §8)."""
    return seeding.seeds(root_seed, 1, "episode", environment, episode)[0]


def renewal_seed(root_seed: int, environment: int, renewal: int) -> int:
    """Return the seed that one environment is made with at a renewal (DESIGN §8)."""
    return seeding.seeds(root_seed, 1, "renewal", environment, renewal)[0]
