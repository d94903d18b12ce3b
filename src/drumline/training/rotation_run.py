"""Run of executors, actors and a learner, with its run folder."""

import dataclasses
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from drumline.buffers.rollout import RolloutStorage
from drumline.crew_protocols import Crew
from drumline.display.glyphs import duration
from drumline.envs.football_frames import is_football, never_freed
from drumline.protocols import Learner, PublishedLayout, WorkerPool
from drumline.runtime.inline_crew import InlineCrew
from drumline.runtime.process_crew import ProcessCrew
from drumline.schedules.intervals import Interval
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.attended_crew import AttendedCrew
from drumline.training.attended_pool import AttendedPool
from drumline.training.blame import explain
from drumline.training.course import Course, published_copy
from drumline.training.evaluations import EvaluationBeside
from drumline.training.ledger import learned
from drumline.training.replaced_pool import ReplacedPool
from drumline.training.restore_note import RestoreNote
from drumline.training.run_order import run_in_order
from drumline.training.run_request import RunRequest
from drumline.training.staff import Staff
from drumline.training.stop_signals import StopSignals
from drumline.types import EvaluationRow, Metrics, ProcessActivity, Span, State
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.executor import ExecutorStart

_SPANS_KEPT = 50_000
_LONG_RESTORE = 5.0


@dataclasses.dataclass(frozen=True)
class RotationRecipe:
    """Parts of an actor-critic method from its config, and its staff from the layout."""

    parts: ActorCriticParts
    staff: Staff
    course: Callable[[ActorCriticParts, Staff, int, Learner], Course]
    """(parts, staff, updates, learner) → the schedule with its state (`Course`)."""
    learner: Callable[[ActorCriticParts, Callable[[], None], int], Learner]
    """(parts, pause between gradient computations, torch threads between updates) → learner."""

    def opened(self, request: RunRequest) -> "RotationRun":
        """Return the run that trains with these parts."""
        return RotationRun(self, request)


class RotationRun:
    """Loop over intervals; learner, journal and the ledger's counters change together."""

    def __init__(self, recipe: RotationRecipe, request: RunRequest):
        config = recipe.parts.config
        self._recipe = recipe
        self._config = config
        self._request = request
        self._last = min(config.intervals, request.last_update or config.intervals)
        self._learner = recipe.learner(recipe.parts, self._pause, recipe.staff.acting_threads)
        self._course = recipe.course(recipe.parts, recipe.staff, self._last, self._learner)
        self._policy = recipe.parts.policy(self._learner.published()["parameters"].size)
        environment = recipe.parts.lanes.environment
        self._ledger = request.ledger(config, environment, self._policy, recipe.staff.words)
        self._evaluation = EvaluationBeside(config, self._ledger, self._learner.published)
        if request.resumed_from is not None:
            self._take_over(learned(request.resumed_from))
        self._crew: Crew | None = None
        self._restoring = RestoreNote(request.display)
        self._updates: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._learned_seconds = 0.0
        self._unended_steps = 0

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        return run_in_order(
            self._train,
            self._ledger,
            evaluate_last=self._evaluate_last,
            makes=[self._make_crew, self._make_pool],
            checkpoint=self._checkpoint,
            policy=self._learner.published,
            close_ledger=self._close_ledger,
            explain=explain,
        )

    def _close_ledger(self, spans: list[Span], activity: list[ProcessActivity]) -> None:
        spans = sorted([*spans, *self._updates], key=lambda span: span.start)
        self._ledger.close(spans, [*activity, self._learner_activity()])

    # the far side

    def _make_crew(self) -> Any:
        try:
            self._crew = self._crew_of_staff()
        except MemoryError as error:
            config = self._recipe.parts.config
            flags = f"--num-envs {config.num_envs} and --alpha {config.alpha}"
            raise ValueError(f"{error}; that is what {flags} need") from error
        return self._crew

    def _crew_of_staff(self) -> Any:
        staff = self._recipe.staff
        plan = staff.crew_plan(self._recipe.parts, self._learner, self._start_of, self._place_of)
        if staff.inline:
            return InlineCrew(
                plan,
                probe_factory=self._request.probe_factory,
                tick=self._show_restore,
                whereabouts=self._request.whereabouts,
            )
        return ProcessCrew(
            plan,
            hang_seconds=self._request.layout.hang_seconds,
            creation_seconds=self._request.layout.creation_seconds,
            probe_factory=self._request.probe_factory,
            log=self._request.display.message,
        )

    @property
    def _evaluators(self) -> int:
        """As many processes as step environments in training; an episode is one process's."""
        workers = self._recipe.staff.executors or self._request.layout.worker_count
        return min(workers, self._config.evaluate_episodes)

    def _make_pool(self) -> WorkerPool:
        """Return the pool that evaluates beside the crew, idle most of the time."""
        # A method from outside need not have the field.
        sample: bool = getattr(self._config, "evaluate_sample", False)
        worker = EvaluatorSpec(
            self._recipe.parts.lanes.environment, self._policy, noise_seed=0, sample=sample
        )
        published = PublishedLayout.of(self._learner.published())

        def pool() -> WorkerPool:
            return self._request.pool(
                worker, published, size=self._evaluators, role="evaluator", probed=False
            )

        replaced = never_freed(worker.environment) and not self._request.inline
        return ReplacedPool(pool) if replaced else pool()

    def _start_of(self, role: str, index: int) -> ExecutorStart | None:
        if role != "executor":
            return None
        assert self._crew is not None, "roles are started by a crew"
        crew: Any = self._crew
        storage = RolloutStorage(self._recipe.parts.shape, crew.arrays)
        finished = crew.exchange.finished
        bounds = self._recipe.staff.bounds(self._config.num_envs)
        return ExecutorStart(
            [
                self._course.history(environment, int(finished[environment]), storage.read)
                for environment in range(*bounds[index : index + 2])
            ]
        )

    def _place_of(self, role: str, index: int) -> str:
        staff, environments = self._recipe.staff, self._config.num_envs
        bounds = (staff.bounds if role == "executor" else staff.served)(environments)
        crew: Any = self._crew
        own = slice(*bounds[index : index + 2])
        steps = crew.exchange.finished[own].tolist()
        config = self._config
        at = min(steps)
        environment = own.start + steps.index(at)
        return (
            f"environment {environment} of {config.env}, env step {at} of that environment "
            f"(interval {at // config.alpha}, t {at % config.alpha}), --seed {config.seed}"
        )

    # the loop

    def _train(self, crew: Any, evaluators: WorkerPool, signals: StopSignals) -> None:
        ledger, last = self._ledger, self._last
        first = ledger.update
        attended = AttendedCrew(crew, signals, lambda: self._show(crew))
        pool = AttendedPool(evaluators, signals, lambda _: self._show(crew), self._ledger.unended)
        self._evaluation.begin_again(pool)
        if first >= last:
            return
        self._evaluation.begin_if_due(pool)  # a stop may have come between
        self._course.begin(crew, first)
        if ledger.fresh:
            self._say_restore()
        crew.start()
        storage = RolloutStorage(self._recipe.parts.shape, crew.arrays)
        for interval, more in self._course.updates(attended, storage, first):
            self._record(interval, more)
            self._course.rehearse(
                self._request.whereabouts
            )  # before any checkpoint, or a resume could pass it by
            self._evaluation.begin_if_due(pool)
            if ledger.checkpoint_due:
                self._checkpoint()

    def _say_restore(self) -> None:
        """Say how long a restore of the environments can take, where that is long."""
        parts, say = self._recipe.parts, self._request.display.message
        restore = parts.restore
        seconds = 0.0 if restore is None else restore.seconds / max(1, self._recipe.staff.executors)
        if restore is not None and seconds > _LONG_RESTORE:
            say(
                f"a resume, or a process that dies, steps up to {restore.env_steps:,} env steps "
                f"again, about {duration(seconds)}; --renew-intervals is "
                f"{parts.config.renew_intervals}"
            )
        elif parts.endless:
            say(
                f"{self._config.env} has no time limit that is known here: a resume steps every "
                "running episode again from its start, however long it is"
            )

    def _evaluate_last(self, crew: Any, evaluators: WorkerPool, signals: StopSignals) -> None:
        self._evaluation.end(
            AttendedPool(evaluators, signals, lambda _: self._show(crew), self._ledger.unended)
        )

    def _record(self, interval: Interval, more: Metrics) -> None:
        tally = self._course.tally
        episodes = tally.take()
        steps = self._config.steps_per_update
        seconds = interval.waited_seconds + interval.update_ended - interval.update_began
        metrics = {
            "episode_return_mean": tally.recent_mean,
            **self._score(),
            "episodes_cut": float(tally.cut),
            **interval.metrics,
            **more,
            "env_steps_per_second": steps / max(seconds, 1e-9),
            "interval_seconds": seconds,
            "waited_seconds": interval.waited_seconds,
            "update_seconds": interval.update_ended - interval.update_began,
            "update_core_seconds": interval.update_core_seconds,
        }
        self._updates.append(Span("learner", 0, interval.update_began, interval.update_ended, 1))
        self._note_ends(ended=bool(episodes), env_steps=steps)
        self._learned_seconds += interval.update_ended - interval.update_began
        share = 1.0 - interval.waited_seconds / max(seconds, 1e-9)
        self._ledger.record(
            interval.update,
            metrics,
            published_copy(self._learner.published()),
            episodes,
            env_steps=steps,
            update_share=share,
        )

    def _note_ends(self, *, ended: bool, env_steps: int) -> None:
        if ended:
            self._ledger.unended.ended()
        self._unended_steps = 0 if ended else self._unended_steps + env_steps
        if self._recipe.parts.endless:
            self._ledger.unended.going(self._unended_steps)

    def _score(self) -> Metrics:
        """Return football's score, which counts goals alone, apart from its reward."""
        tally, config = self._course.tally, self._recipe.parts.config
        if tally.recent_score is not None:
            return {"score_mean": tally.recent_score}
        return {"score_mean": tally.recent_mean} if is_football(config.env) else {}

    def _pause(self) -> None:
        """Notice deaths in the crew between gradient computations."""
        if self._crew is not None:
            self._crew.look()

    def _show_restore(self) -> None:
        """Show how much of the journal the roles have replayed, while they restore."""
        if self._crew is not None and self._restoring.due():
            self._restoring.show(*self._crew.restoring())

    def _show(self, crew: Any) -> None:
        self._show_restore()
        self._ledger.show_if_due(lambda: [*crew.activity(), self._learner_activity()])

    def _learner_activity(self) -> ProcessActivity:
        """Return the driver's own row: its work as the learner."""
        done, seconds = self._ledger.update, self._learned_seconds
        return ProcessActivity("learner", 0, os.getpid(), done, done, seconds, 0)

    # state

    def _state(self) -> State:
        return State.merged(self._learner.state(), self._course.state(), self._evaluation.state())

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._state())

    def _take_over(self, state: State) -> None:
        self._learner.load(state)
        self._course.load(state, list(self._learner.published()))
        self._evaluation.load(state)
