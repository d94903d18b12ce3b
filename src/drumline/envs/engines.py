"""EnvPool behind Gymnasium's single-environment interface: one pool per episode.

EnvPool ignores `reset(seed=…)`: its seed is fixed when a pool is made. An episode that is a
function of its seed is therefore a new pool; its cost is in
benchmarks/results/envpool_creation.csv.
"""

import warnings
from typing import Any

import numpy as np

from drumline.envs.envpool_package import (
    cannot_make,
    envpool_with,
    known_spec,
    limit_counted_outside,
    one_step_longer,
    time_limit,
)
from drumline.envs.football_frames import FootballFrames, is_football, stacked_space
from drumline.envs.held_pool import HeldPool

_ONLY = np.zeros(1, np.int64)


class EnvPoolEnvironment:
    """One EnvPool environment; `reset(seed)` makes a new pool."""

    def __init__(self, env_id: str, options: dict[str, Any]):
        self._envpool = envpool_with(env_id)
        known = known_spec(self._envpool, env_id, options)
        self._id = env_id
        self.limit = time_limit(known)
        """Steps of an episode, which the caller counts."""
        counted = limit_counted_outside(known)
        self._options = one_step_longer(options, counted) if counted else options
        self._held: HeldPool | None = None
        self._pool: Any = None
        try:
            self._make(0)
        except Exception as error:
            raise cannot_make(env_id, error) from error
        self.observation_space = self._pool.observation_space
        self._football: FootballFrames | None = None
        if is_football(env_id):
            self._football = FootballFrames(1, self.observation_space.shape)
            self.observation_space = stacked_space(self.observation_space)
        self.action_space = self._pool.action_space

    def _make(self, seed: int) -> None:
        self.close()
        make, kind, options = self._envpool.make, "gymnasium", self._options
        self._held = HeldPool(
            lambda: make(self._id, env_type=kind, num_envs=1, seed=seed, num_threads=1, **options)
        )
        self._pool = self._held.pool
        with warnings.catch_warnings():
            # EnvPool builds its spaces at first use, with float64 bounds for float32: Gymnasium
            # would warn in every episode.
            warnings.filterwarnings("ignore", message=".*precision lowered by casting")
            _ = self._pool.observation_space, self._pool.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, Any]:
        """Make a new pool with this seed and start its first episode."""
        self._make(0 if seed is None else seed)
        observation, info = self._pool.reset()
        if self._football is not None:
            observation = self._football.start(_ONLY, observation)
        return observation[0], info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step the one environment."""
        observation, reward, terminated, truncated, info = self._pool.step(np.asarray(action)[None])
        if self._football is not None:
            observation = self._football.follow(_ONLY, observation)
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def close(self) -> None:
        """Close the pool."""
        self._pool = None
        if self._held is not None:
            self._held.close()
