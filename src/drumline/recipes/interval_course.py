"""The course of methods that learn from whole intervals, in their order."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from drumline.buffers.rollout import RolloutStorage
from drumline.envs.journal import Journal
from drumline.envs.lanes import LaneHistory
from drumline.protocols import Crew, Learner
from drumline.recipes.actor_critic import ActorCriticParts
from drumline.recipes.course import published_copy, taken
from drumline.recipes.episode_tally import EpisodeTally
from drumline.recipes.rehearsal import alone, rehearse
from drumline.recipes.staff import Staff
from drumline.schedules.intervals import Interval, RotationPlan
from drumline.schedules.lockstep import lockstep
from drumline.schedules.overlapped import overlapped
from drumline.types import Metrics, Rollout, State
from drumline.workers.actor import Answers
from drumline.workers.versions import VersionedInference

_PREVIOUS = "previous_"


class IntervalCourse:
    """A `Course`: journal and tally are folded while nobody may write the interval's storage."""

    def __init__(self, parts: ActorCriticParts, staff: Staff, plan: RotationPlan, learner: Learner):
        config = parts.config
        self._parts = parts
        self._staff = staff
        self._plan = plan
        self._learner = learner
        self._journal = Journal(
            config.num_envs,
            config.alpha,
            renewed=parts.renewed,
            renew_intervals=config.renew_intervals,
        )
        self.tally = EpisodeTally(config.num_envs, config.alpha, config.renew_intervals)
        self._previous = published_copy(learner.published())
        self._first: Rollout | None = None

    def begin(self, crew: Any, first: int) -> None:
        """Publish versions `first … first + lag`, and release what may start with them."""
        plan = self._plan
        crew.publish(first, self._previous if plan.lag else self._learner.published())
        if plan.lag:
            crew.publish(first + 1, self._learner.published())
        crew.exchange.finished[:] = first * plan.alpha
        ahead = plan.lag if plan.barrier == "sliding" else 0
        crew.exchange.release(first + ahead)

    def updates(
        self, crew: Crew, storage: RolloutStorage, first: int
    ) -> Iterator[tuple[Interval, Metrics]]:
        """Yield each interval after its update."""
        schedule = partial(overlapped, self._learner, crew, storage, self._plan)
        if self._staff.driver_acts:
            parts = self._parts
            answers = Answers(
                crew.exchange,
                storage,
                parts.network.head,
                VersionedInference(parts.inference(), crew.published),
            )
            schedule = partial(
                lockstep,
                self._learner,
                crew,
                storage,
                self._plan,
                turns=self._staff.turns(parts.config.num_envs),
                answer=answers.give,
            )
        lag: Metrics = {"policy_lag": float(self._plan.lag)}
        for interval in schedule(first=first, before_release=self._fold):
            if self._plan.lag:
                self._previous = published_copy(crew.published(interval.version - 1))
            yield interval, lag
            if self._first is not None:  # what was learned is recorded by now
                rehearse(self._parts.lanes, self._first, self._parts.config.env)
                self._first = None

    def history(self, environment: int, steps: int, read: Callable[[int], Rollout]) -> LaneHistory:
        """Return how one environment came to `steps`."""
        return self._journal.history(environment, steps, read)

    def state(self) -> State:
        """Return journal, tally, and the version before the newest if anybody acts with it."""
        journal, tally = self._journal.state(), self.tally.state()
        previous = {_PREVIOUS + k: v for k, v in self._previous.items()} if self._plan.lag else {}
        return State(
            {**journal.tensors, **tally.tensors, **previous},
            {**journal.counters, **tally.counters},
        )

    def load(self, state: State, names: list[str]) -> None:
        """Take over a state."""
        self._journal.load(state)
        self.tally.load(state)
        if self._plan.lag:
            self._previous = taken(state, _PREVIOUS, names)

    def _fold(self, interval: Interval) -> None:
        self._journal.fold(interval.rollout)
        self.tally.fold(interval.rollout)
        if interval.update == 1 and self._parts.config.promise:
            self._first = alone(interval.rollout)
