"""The course of a free-running method: unrolls are folded one by one, as they are taken."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline.buffers.rollout import RolloutStorage
from drumline.crew_protocols import Crew
from drumline.envs.journal import Journal
from drumline.envs.lanes import LaneHistory
from drumline.functional.reward_scaling import RewardScaling, fold, initial_scaling, scaled
from drumline.protocols import Learner, Whereabouts
from drumline.schedules.free_running import free_running
from drumline.schedules.intervals import Interval
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.episode_tally import EpisodeTally
from drumline.training.unroll_queue import UnrollQueue, column
from drumline.types import Metrics, Moments, Rollout, State


class FreeCourse:
    """A `Course` without a promise.

    A process that dies is replaced and restored, as in other courses. A resumed run continues with
    the learned state and new episodes: running unrolls belong to no update that could be repeated.
    """

    def __init__(
        self, parts: ActorCriticParts, updates: int, learner: Learner, *, scale_rewards: bool
    ):
        config = parts.config
        self._parts = parts
        self._updates = updates
        self._learner = learner
        self._scale = initial_scaling(config.num_envs) if scale_rewards else None
        self._begun = 0
        self._queue: UnrollQueue | None = None
        self._journals = self._new_journals()
        every = config.renew_intervals if parts.renewed else 0
        scores = parts.shape.scores
        self.tally = EpisodeTally(config.num_envs, config.alpha, every, scores)

    def begin(self, crew: Any, first: int) -> None:
        """Publish the newest version, and let every environment begin two unrolls."""
        crew.publish(first, self._learner.published())
        crew.exchange.finished[:] = self._begun * self._parts.config.alpha
        crew.exchange.release(self._begun + 1)

    def updates(
        self, crew: Crew, storage: RolloutStorage, first: int
    ) -> Iterator[tuple[Interval, Metrics]]:
        """Yield each update with its measured lag."""
        queue = self._queue = UnrollQueue(storage, crew.exchange, self._begun, self._fold)
        batch = self._parts.config.batch
        for interval in free_running(
            self._learner, crew, queue, batch=batch, updates=self._updates, first=first
        ):
            # One gradient step makes one version, so the lag in gradient steps is the same.
            lag = float(queue.lags.mean())
            more = {"policy_lag": lag, "policy_lag_max": float(queue.lags.max())}
            yield interval, {**more, "gradient_step_lag": lag, "unrolls_waiting": queue.waiting()}

    def rehearse(self, whereabouts: Whereabouts) -> None:
        """Check nothing: this course has no promise."""

    def history(self, environment: int, steps: int, read: Callable[[int], Rollout]) -> LaneHistory:
        """Return one environment's history up to `steps`."""
        journal = self._journals[environment]
        return journal.history(0, steps, lambda unroll: column(read(unroll), environment))

    def state(self) -> State:
        """Return the tally, the reward scale, and an unroll that no environment has begun."""
        saved = self.tally.state()
        tensors = dict(saved.tensors)
        begun = self._begun if self._queue is None else self._queue.furthest + 1
        counters: dict[str, int | float] = {**saved.counters, "unrolls_begun": begun}
        if self._scale is not None:
            tensors["reward_mean"] = self._scale.moments.mean.copy()
            tensors["reward_squares"] = self._scale.moments.squares.copy()
            counters["reward_count"] = self._scale.moments.count
        return State(tensors, counters)

    def load(self, state: State, names: list[str]) -> None:
        """Take over a state; running episodes are cut."""
        self.tally.load(state)
        self.tally.cut_running()
        begun = int(state.counter("unrolls_begun"))
        if self._scale is not None:
            count = float(state.counter("reward_count"))
            mean, squares = (state.tensor(f"reward_{name}") for name in ("mean", "squares"))
            self._scale = self._scale._replace(moments=Moments(count, mean, squares))
        self._begun = self._fresh_unroll(begun)
        self._journals = self._new_journals()

    def _fresh_unroll(self, begun: int) -> int:
        """Return an unroll from which every episode has a seed that was not used before.

        An EnvPool without renewals can begin at unroll 0 alone, with the first seeds again.
        """
        if not self._parts.renewed:
            return begun
        every = self._parts.config.renew_intervals
        return -(-begun // every) * every if every else 0

    def _new_journals(self) -> list[Journal]:
        config, alpha, renewed = self._parts.config, self._parts.config.alpha, self._parts.renewed
        journals = [
            Journal(1, alpha, renewed=renewed, renew_intervals=config.renew_intervals)
            for _ in range(config.num_envs)
        ]
        # An episode takes a step or more, so no episode had a number as high as this.
        steps = np.array([self._begun * alpha])
        for journal in journals:
            counters = {"journal_first_interval": self._begun, "journal_intervals": 0}
            tensors = {"journal_episode": steps, "journal_began": steps}
            journal.load(State(tensors, dict(counters)))
        return journals

    def _fold(self, environment: int, unroll: Rollout, update: int) -> np.ndarray:
        self._journals[environment].fold(unroll)
        self.tally.fold_unroll(environment, unroll, update + 1)
        return self._scaled(environment, unroll)

    def _scaled(self, environment: int, unroll: Rollout) -> np.ndarray:
        if self._scale is None:
            return unroll.rewards
        returns, every = self._scale.discounted_returns, self._parts.config.renew_intervals
        own = returns[environment : environment + 1]
        if self._parts.renewed and every and unroll.interval % every == 0:
            own = np.zeros(1)
        ended = unroll.terminated | unroll.truncated
        alone = RewardScaling(own, self._scale.moments)
        folded = fold(alone, unroll.rewards, ended, self._parts.config.discount)
        returns[environment] = folded.discounted_returns[0]
        self._scale = RewardScaling(returns, folded.moments)
        return scaled(unroll.rewards, folded)
