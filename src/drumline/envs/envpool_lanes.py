"""One EnvPool as lanes: its autoreset steps are hidden, and lanes are restored by replay.

A pool's seeds are fixed when it is made, one per environment. An environment's stream does not
depend on the other environments of its pool. A pool never writes again to arrays that it returned.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec, refuse_flatten
from drumline.envs.envpool_package import (
    envpool_with,
    known_spec,
    limit_counted_outside,
    one_step_longer,
    time_limit,
)
from drumline.envs.football import Checkpoints, no_checkpoints
from drumline.envs.football_frames import STACK, FootballFrames, is_football, stacked_space
from drumline.envs.held_pool import HeldPool
from drumline.envs.lanes import (
    ActionForm,
    LaneHistory,
    NotReproducible,
    Replaying,
    Steps,
    renewal_seed,
    unheard,
)
from drumline.envs.observation_spaces import check_observations


class EnvPoolLanes:
    """Steps all or some environments of a pool, in the order of their numbers."""

    needs_renewal = True
    endless = False

    def __init__(
        self,
        spec: EnvironmentSpec,
        root_seed: int,
        first: int,
        count: int,
        checkpoints: bool = False,
        threads: int = 1,
    ):
        if spec.frame_skip > 1:
            raise EnvironmentProblem(
                f"--frame-skip {spec.frame_skip} is for Gymnasium; EnvPool's {spec.id} has an "
                "option of its own for it or none: use --engine gymnasium"
            )
        refuse_flatten(spec)
        self._envpool = envpool_with(spec.id)
        self.count = count
        self.episode = np.zeros(count, np.int64)
        self._id = spec.id
        self._options = dict(spec.options)
        self._root_seed = root_seed
        self._first = first
        self._threads = threads
        self._all = np.arange(count, dtype=np.int32)
        self._elapsed = np.zeros(count, np.int64)
        self._held: HeldPool | None = None
        self._pool: Any = None
        known = known_spec(self._envpool, spec.id, self._options)
        self._limit = limit_counted_outside(known)
        self.limit = time_limit(known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # bounds that Gymnasium casts to float32
            self.observation_space = known.gymnasium_observation_space
            self.action_space = known.gymnasium_action_space
        check_observations(self.observation_space, spec.id)
        self._football: FootballFrames | None = None
        self.stack = 1
        if is_football(spec.id):
            self._football = FootballFrames(count, self.observation_space.shape)
            self.observation_space = stacked_space(self.observation_space)
            self.stack = STACK
        elif "atari" in type(known).__mro__[1].__module__:
            self.stack = int(known.config.stack_num)
        names: list[str] = list(known._action_keys)
        if len(names) != 3:
            raise EnvironmentProblem(f"{spec.id} takes {names[2:]}; lanes serve one action each")
        self._form = ActionForm(self.action_space, spec.id, known._action_spec[2][0])
        fields: list[str] = list(known._state_keys)
        seen = [name for name in fields if name == "obs" or name.startswith("obs:")]
        self._fields = [fields.index(name) for name in (*seen, "reward", "done", "trunc")]
        # an Atari pool marks a lost life or a game over at the time limit as a truncation
        self._tells_lives = "info:lives" in fields
        if self._tells_lives:
            self._life_fields = fields.index("info:lives"), fields.index("info:terminated")
        self._life_ends = bool(getattr(known.config, "episodic_life", False))
        self._lives = np.zeros(count, np.int32)
        self._checkpoints: Checkpoints | None = None
        self.scores: np.ndarray | None = None
        if checkpoints:
            if not is_football(spec.id):
                raise EnvironmentProblem(no_checkpoints(spec.id))
            self._checkpoints = Checkpoints(count)
            self._owner_field = fields.index("info:ball_owned_team")
            self.scores = np.zeros(count, np.float32)
        shape, dtype = self.observation_space.shape, self.observation_space.dtype
        self._no_final = np.zeros((0, *shape), dtype)

    def begin(self, renewal: int) -> np.ndarray:
        """Make the pool of this renewal and start episode 0 of every lane."""
        self.episode[:] = 0
        return self._anew(renewal)

    def step(self, lanes: np.ndarray | None, actions: np.ndarray) -> Steps:
        """Step these lanes; after an episode's end a second call starts the lane's next episode."""
        ids = self._all if lanes is None else lanes.astype(np.int32)
        formed = self._form(actions, len(ids))
        state = self._call(ids, formed)
        observations, rewards, done, truncated = (state[field] for field in self._fields)
        self._elapsed[ids] += 1
        if self._limit:
            truncated = (self._elapsed[ids] >= self._limit) & ~done
        elif self._tells_lives:
            truncated = truncated & ~self._lost(ids, state)
        if self._checkpoints is not None and self.scores is not None:
            self.scores[ids] = rewards
            owner = state[self._owner_field]
            rewards = self._checkpoints.rewards(ids, observations, owner, rewards)
        if self._football is not None:
            observations = self._football.follow(ids, observations)
        over = done | truncated
        final = self._no_final
        if over.any():
            if truncated.any():
                final = observations[truncated]
            observations[over] = self._next_episode(ids[over], formed[over], done[over])
        return Steps(
            observations,
            rewards.astype(np.float32, copy=False),
            over & ~truncated,
            truncated,
            final,
        )

    def renew(self, renewal: int) -> np.ndarray:
        """Cut the running episodes and make every environment anew."""
        self.episode += 1
        return self._anew(renewal)

    def steps_to_replay(self, histories: Sequence[LaneHistory]) -> int:
        """Return the number of steps since the renewal; football: of the running episodes."""
        whole = self._football is None
        return sum(len(one.actions) if whole else one.running for one in histories)

    def restore(
        self, histories: Sequence[LaneHistory], replaying: Replaying = unheard
    ) -> np.ndarray:
        """Make the pool of the histories and replay them; shorter histories stop earlier."""
        if len(histories) != self.count:
            raise ValueError(f"{self.count} lanes take as many histories, got {len(histories)}")
        renewals = {history.renewal for history in histories}
        if len(renewals) != 1:
            raise ValueError(f"lanes share a pool, so one renewal; got {sorted(renewals)}")
        self.episode[:] = [history.episode for history in histories]
        observations = self._anew(renewals.pop()).copy()
        replaying(0)
        if self._football is not None:
            histories = [
                self._skipped(observations, *entry, replaying) for entry in enumerate(histories)
            ]
        lengths = np.array([len(history.actions) for history in histories])
        for row in range(int(lengths.max())):
            lanes = np.flatnonzero(lengths > row)
            running = [histories[lane] for lane in lanes.tolist()]
            steps = self.step(lanes, np.stack([history.actions[row] for history in running]))
            before = np.array([history.ended[row] for history in running])
            different = lanes[before != (steps.terminated | steps.truncated)]
            if len(different):
                raise NotReproducible(
                    f"environment {self._first + different[0]} ({self._id}) did not end its "
                    f"episodes where it did before, at step {row} of the replay: it has state "
                    "that its seed does not set"
                )
            observations[lanes] = steps.observations
            replaying(len(lanes))
        return observations

    def _skipped(
        self, observations: np.ndarray, lane: int, history: LaneHistory, replaying: Replaying
    ) -> LaneHistory:
        """Move to a lane's running episode by resets alone; return the actions left to replay.

        A football episode is a function of its pool's seed and its number (measured).
        """
        ended = np.flatnonzero(history.ended)
        for _ in ended:
            observations[lane] = self._reset(self._all[lane : lane + 1])[0]
            replaying(0)
        self.episode[lane] += len(ended)
        rest = slice(int(ended[-1]) + 1 if len(ended) else 0, None)
        return history._replace(actions=history.actions[rest], ended=history.ended[rest])

    def close(self) -> None:
        """Close the pool."""
        self._pool = None
        if self._held is not None:
            self._held.close()

    def _anew(self, renewal: int) -> np.ndarray:
        numbers = range(self._first, self._first + self.count)
        self._make([renewal_seed(self._root_seed, number, renewal) for number in numbers])
        return self._reset(self._all)

    def _make(self, seeds: list[int]) -> None:
        self.close()
        options = self._options
        if self._limit:
            options = one_step_longer(options, self._limit)
        self._held = HeldPool(
            lambda: self._envpool.make(
                self._id,
                env_type="gymnasium",
                num_envs=self.count,
                seed=seeds,
                num_threads=min(self._threads, self.count),
                **options,
            )
        )
        self._pool = self._held.pool

    def _call(self, ids: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
        # the pool's `step` without its dictionaries, which cost as much as 16 steps of CartPole
        self._pool._send([ids, ids, actions])
        return self._pool._recv()

    def _reset(self, ids: np.ndarray) -> np.ndarray:
        self._pool._reset(ids)
        return self._started(ids, self._pool._recv())

    def _started(self, ids: np.ndarray, state: list[np.ndarray]) -> np.ndarray:
        self._elapsed[ids] = 0
        if self._tells_lives:
            self._lives[ids] = state[self._life_fields[0]]
        if self._checkpoints is not None:
            self._checkpoints.start(ids)
        observations = state[self._fields[0]]
        return observations if self._football is None else self._football.start(ids, observations)

    def _next_episode(self, ids: np.ndarray, actions: np.ndarray, done: np.ndarray) -> np.ndarray:
        """Return first observations. The pool resets ended lanes itself; a call resets others."""
        self.episode[ids] += 1
        if done.all():
            return self._started(ids, self._call(ids, actions))
        if not done.any():
            return self._reset(ids)
        told = self._reset(ids[~done])
        first = np.empty((len(ids), *told.shape[1:]), told.dtype)
        first[~done] = told
        first[done] = self._started(ids[done], self._call(ids[done], actions[done]))
        return first

    def _lost(self, ids: np.ndarray, state: list[np.ndarray]) -> np.ndarray:
        """Return the lanes whose game is over or, if a life is an episode, whose life was lost."""
        lives, game_over = (state[field] for field in self._life_fields)
        lost = game_over.astype(bool)
        if self._life_ends:
            lost |= lives < self._lives[ids]
        self._lives[ids] = lives
        return lost
