"""Run of executors, actors and a learner, with its run folder."""

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from drumline.buffers.rollout import RolloutStorage
from drumline.crew_protocols import Crew
from drumline.display.glyphs import duration
from drumline.envs.football_frames import is_football, never_freed
from drumline.errors import GroupLost
from drumline.protocols import Learner, PublishedLayout, WorkerPool
from drumline.runtime.cluster.group_links import Chunk
from drumline.runtime.cluster.groups import Groups
from drumline.schedules.intervals import Interval
from drumline.training.actor_critic_parts import ActorCriticParts
from drumline.training.attended_crew import AttendedCrew
from drumline.training.attended_pool import AttendedPool
from drumline.training.blame import explain
from drumline.training.course import Course, published_copy
from drumline.training.evaluations import EvaluationBeside
from drumline.training.gathered_intervals import GatheredStorage, shards_of
from drumline.training.group_work import GroupWork, differing
from drumline.training.ledger import learned
from drumline.training.replaced_pool import ReplacedPool
from drumline.training.restore_note import RestoreNote
from drumline.training.rotation_crew import RotationCrew
from drumline.training.run_order import run_in_order
from drumline.training.run_request import RunRequest
from drumline.training.staff import Staff
from drumline.training.stop_signals import StopSignals
from drumline.types import EvaluationRow, Metrics, ProcessActivity, Span, State
from drumline.workers.evaluator import EvaluatorSpec

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

    def of_group(self, group: int) -> "RotationRecipe":
        """Return the parts of another group than the head, group 0."""
        return dataclasses.replace(self, staff=dataclasses.replace(self.staff, group=group))

    def opened(self, request: RunRequest) -> "RotationRun":
        """Return the run that trains with these parts; ValueError if they know no groups."""
        nodes: int = getattr(request.layout, "nodes", 1)
        if nodes != self.staff.groups:
            method = request.folder.document["method"]
            raise ValueError(f"{method} does not learn in groups: leave --nodes {nodes} out")
        return RotationRun(self, request)


class RotationRun:
    """Loop over intervals; learner, journal and the ledger's counters change together."""

    def __init__(self, recipe: RotationRecipe, request: RunRequest):
        config = recipe.parts.config
        self._recipe = recipe
        self._config = config
        self._request = request
        asked = request.last_update
        self._last = config.intervals if asked is None else min(config.intervals, asked)
        self._parts, staff = recipe.parts, recipe.staff
        if staff.groups > 1:
            shards = shards_of(config.learners, staff, self._swap)
            self._parts = dataclasses.replace(recipe.parts, shards=shards)
        self._learner = recipe.learner(self._parts, self._pause, staff.acting_threads)
        self._course = recipe.course(self._parts, staff, self._last, self._learner)
        self._crews = RotationCrew(self._parts, staff, self._course, self._learner)
        self._policy = recipe.parts.policy(self._learner.published()["parameters"].size)
        environment = recipe.parts.lanes.environment
        self._ledger = request.ledger(config, environment, self._policy, recipe.staff.words)
        self._evaluation = EvaluationBeside(
            config, self._ledger, self._learner.published, inline=request.inline
        )
        if request.resumed_from is not None:
            self._take_over(learned(request.resumed_from))
        self._crew: Crew | None = None
        self._groups: Groups | None = None
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
            makes=[
                *([self._make_groups] if self._recipe.staff.groups > 1 else []),
                self._make_crew,
                self._make_pool,
            ],
            checkpoint=self._checkpoint,
            policy=self._learner.published,
            close_ledger=self._close_ledger,
            explain=explain,
        )

    def _close_ledger(self, spans: list[Span], activity: list[ProcessActivity]) -> None:
        spans = sorted([*spans, *self._updates], key=lambda span: span.start)
        self._ledger.close(spans, [*activity, self._learner_activity()])

    # the far side

    def _make_groups(self) -> Groups:
        request, staff = self._request, self._recipe.staff
        layout = request.layout
        work = GroupWork(self._config, layout, self._last, request.probe_factory)
        self._groups = Groups(
            staff.groups,
            work,
            places=request.places(),
            packages=["drumline", *request.folder.document["computed_by"]],
            refuse=differing if self._config.promise else lambda built: "",
            hang_seconds=layout.hang_seconds,
            creation_seconds=layout.creation_seconds,
            probe_factory=request.probe_factory,
            log=request.display.message,
        )
        return self._groups

    def _make_crew(self) -> Any:
        self._crew = self._crews.made(
            self._request.layout,
            probe_factory=self._request.probe_factory,
            log=self._request.display.message,
            tick=self._show_restore,
            whereabouts=self._request.whereabouts,
        )
        return self._crew

    @property
    def _evaluators(self) -> int:
        """Processes of an evaluation: those that step environments in training, one an episode."""
        workers = self._recipe.staff.executors or self._request.layout.worker_count
        return min(workers, self._config.evaluate_episodes)

    def _make_pool(self) -> WorkerPool:
        """Return the pool that evaluates beside the crew, idle most of the time."""
        # A method from outside need not have the field.
        sample: bool = getattr(self._config, "evaluate_sample", False)
        worker = EvaluatorSpec(
            self._parts.lanes.environment, self._policy, noise_seed=0, sample=sample
        )
        published = PublishedLayout.of(self._learner.published())

        def pool() -> WorkerPool:
            return self._request.pool(
                worker, published, size=self._evaluators, role="evaluator", probed=False, here=True
            )

        replaced = never_freed(worker.environment) and not self._request.inline
        return ReplacedPool(pool) if replaced else pool()

    # the loop

    def _train(self, *workers: Any) -> None:
        crew, evaluators, signals = workers[-3:]
        ledger, last = self._ledger, self._last
        first = ledger.update
        attended = AttendedCrew(crew, signals, lambda: self._tick(crew))
        pool = AttendedPool(evaluators, signals, lambda _: self._show(crew), self._ledger.unended)
        self._evaluation.start(pool)
        if first >= last:
            return
        self._evaluation.begin_if_due()  # a stop may have come between
        if ledger.ends_here(signals):
            return
        self._course.begin(crew, first)
        if ledger.fresh:
            self._say_restore()
        crew.start()
        if self._groups is None:
            storage = RolloutStorage(self._parts.shape, crew.arrays)
            self._update(attended, storage, signals)
        else:
            self._update_with_groups(self._groups, attended, signals)

    def _update(self, crew: AttendedCrew, storage: RolloutStorage, signals: StopSignals) -> None:
        """Go on from the ledger's update to the last, or to where a callback ends the run."""
        for interval, more in self._course.updates(crew, storage, self._ledger.update):
            self._record(interval, more)
            self._course.rehearse(
                self._request.whereabouts
            )  # before any checkpoint, or a resume could pass it by
            ends = self._ledger.ends_here(signals)  # a stop may come before an evaluation begins
            self._evaluation.begin_if_due()
            if self._ledger.checkpoint_due:
                self._checkpoint()
            if self._ledger.ends_here(signals) or ends:
                return

    def _update_with_groups(
        self, groups: Groups, attended: AttendedCrew, signals: StopSignals
    ) -> None:
        """Go on with all groups; after the loss of one the others begin again at this update."""
        crew: Any = self._crew
        storage = GatheredStorage(
            self._parts.shape,
            crew.arrays,
            self._recipe.staff,
            self._swap,
            self._learner.published,
        )
        groups.idle = partial(self._attend, crew, groups, signals)
        while True:
            try:
                groups.begin(
                    self._ledger.update,
                    State.merged(self._learner.state(), self._course.state()),
                )
                self._update(attended, storage, signals)
            except GroupLost as lost:
                signals.state_whole = True  # an update that lacks a group changes nothing
                groups.again(lost, self._ledger.update)
            else:
                groups.finish()
                return

    def _attend(self, crew: Any, groups: Groups, signals: StopSignals) -> None:
        """Look after crew, groups, signals and display while the head waits for a group."""
        try:
            crew.look()
            groups.look()
            signals.look()
        except BaseException:
            signals.state_whole = True  # the update that waits is undone on the way out
            raise
        self._evaluation.look()
        self._show(crew)

    def _swap(self, chunks: Sequence[Chunk]) -> Mapping[int, memoryview]:
        assert self._groups is not None, "a run without groups swaps nothing"
        return self._groups.swap(chunks)

    def _say_restore(self) -> None:
        """Say how long a restore of the environments can take, where that is long."""
        parts, say = self._parts, self._request.display.message
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

    def _evaluate_last(self, *workers: Any) -> None:
        self._evaluation.end()

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
        self._ledger.record(
            interval.update,
            metrics,
            published_copy(self._learner.published()),
            episodes,
            env_steps=steps,
            update_seconds=metrics["update_seconds"],
        )

    def _note_ends(self, *, ended: bool, env_steps: int) -> None:
        if ended:
            self._ledger.unended.ended()
        self._unended_steps = 0 if ended else self._unended_steps + env_steps
        if self._parts.endless:
            self._ledger.unended.going(self._unended_steps)

    def _score(self) -> Metrics:
        """Return football's score, which counts goals alone, apart from its reward."""
        tally, config = self._course.tally, self._parts.config
        if tally.recent_score is not None:
            return {"score_mean": tally.recent_score}
        return {"score_mean": tally.recent_mean} if is_football(config.env) else {}

    def _pause(self) -> None:
        """Notice deaths in the crew, and ended evaluations, between gradient computations."""
        if self._crew is not None:
            self._crew.look()
        self._evaluation.look()

    def _show_restore(self) -> None:
        """Show how much of the journal the roles have replayed, while they restore."""
        if self._crew is not None and self._restoring.due():
            self._restoring.show(*self._crew.restoring())

    def _tick(self, crew: Any) -> None:
        if self._groups is not None:
            self._groups.look()
        self._evaluation.look()
        self._show(crew)

    def _show(self, crew: Any) -> None:
        self._show_restore()
        self._ledger.show_if_due(self._activity)

    def _activity(self) -> list[ProcessActivity]:
        crew: Any = self._crew
        others = [] if self._groups is None else self._groups.activity()
        return [*crew.activity(), *others, self._learner_activity()]

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
