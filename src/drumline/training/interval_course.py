"""The course of methods that learn from whole intervals, in their order."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from drumline.buffers.rollout import STORAGES, RolloutStorage
from drumline.crew_protocols import Crew
from drumline.envs.journal import Journal
from drumline.envs.lanes import LaneHistory
from drumline.protocols import Learner, Whereabouts
from drumline.schedules.intervals import Interval, RotationPlan
from drumline.schedules.lockstep import lockstep
from drumline.schedules.overlapped import overlapped
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.course import published_copy
from drumline.training.episode_tally import EpisodeTally
from drumline.training.rehearsal import alone, rehearse
from drumline.training.staff import Staff
from drumline.types import Metrics, Rollout, State
from drumline.workers.actor import Answers
from drumline.workers.versions import VersionedInference

_PREVIOUS = "previous_"


class IntervalCourse:
    """A `Course`: journal and tally are folded while no executor may write its storage."""

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
        self.tally = EpisodeTally(
            config.num_envs, config.alpha, config.renew_intervals, parts.shape.scores
        )
        self._previous = published_copy(learner.published())
        self._first: Rollout | None = None
        self._gradient_steps = 0.0
        """Gradient steps that made the newest version."""
        self._latest_steps = 0.0
        """Gradient steps of the newest version's own update."""
        self._lag: Metrics = {}

    def begin(self, crew: Any, first: int) -> None:
        """Publish versions `first … first + lag`, and release the intervals that use them."""
        plan = self._plan
        crew.publish(first, self._previous if plan.lag else self._learner.published())
        if plan.lag:
            crew.publish(first + 1, self._learner.published())
        crew.exchange.finished[:] = first * plan.alpha
        ahead = plan.lag if plan.barrier == "sliding" else 0
        crew.exchange.release(plan.begun(first + ahead))

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
        for interval in schedule(first=first, before_release=partial(self._fold, storage)):
            if self._plan.lag:
                self._previous = published_copy(crew.published(interval.version - 1))
            yield interval, self._lag

    def rehearse(self, whereabouts: Whereabouts) -> None:
        """Step environment 0 through the first interval again, if that was the latest."""
        if self._first is not None:
            rehearse(self._parts.lanes, self._first, self._parts.config.env, whereabouts)
            self._first = None

    def history(self, environment: int, steps: int, read: Callable[[int], Rollout]) -> LaneHistory:
        """Return one environment's history up to `steps`."""
        return self._journal.history(environment, steps, read)

    def state(self) -> State:
        """Return journal, tally and, where there is a lag, the version before the newest."""
        previous = {_PREVIOUS + k: v for k, v in self._previous.items()} if self._plan.lag else {}
        own = State(previous, {"latest_gradient_steps": self._latest_steps})
        return State.merged(self._journal.state(), self.tally.state(), own)

    def load(self, state: State, names: list[str]) -> None:
        """Take over a state."""
        self._journal.load(state)
        self.tally.load(state)
        if self._plan.lag:
            self._previous = {name: state.tensor(_PREVIOUS + name) for name in names}
        self._latest_steps = float(state.counter("latest_gradient_steps"))
        self._gradient_steps = float(state.counter("gradient_steps"))

    def _fold(self, storage: RolloutStorage, interval: Interval) -> None:
        lags = interval.version - 1 - storage.versions[(interval.update - 1) % STORAGES]
        self._lag = {
            "policy_lag": float(lags.mean()),
            "policy_lag_max": float(lags.max()),
            # Steps of the update before, which the acting policy had not seen.
            "gradient_step_lag": self._latest_steps if self._plan.lag else 0.0,
        }
        total = interval.metrics["gradient_steps"]
        self._latest_steps, self._gradient_steps = total - self._gradient_steps, total
        self._journal.fold(interval.rollout)
        self.tally.fold(interval.rollout)
        if interval.update == 1 and self._parts.config.promise:
            self._first = alone(interval.rollout)
