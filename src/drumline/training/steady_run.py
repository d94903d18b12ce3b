"""Run of a steady-state method: its population, virtual clock, pool and run folder."""

import dataclasses
import os
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drumline.errors import StrategyFailed
from drumline.functional.numpy_threads import one_numpy_thread
from drumline.protocols import PublishedLayout, WorkerPool
from drumline.runs.event_log import event_line, logged_workers
from drumline.runtime.cluster.traffic import Traffic
from drumline.schedules.event_order import (
    ArrivalOrder,
    EventOrder,
    LoggedOrder,
    VirtualCosts,
    VirtualOrder,
)
from drumline.schedules.steady_state import SteadyState
from drumline.tasks import Event, Snapshot
from drumline.training.attended_pool import AttendedPool
from drumline.training.blame import explain, explain_strategy
from drumline.training.evaluations import EvaluationBeside
from drumline.training.idle_times import IdleTimes
from drumline.training.ledger import learned
from drumline.training.method_answers import whole_state
from drumline.training.replay_memory import segments_of
from drumline.training.restore_note import RestoreNote
from drumline.training.run_order import run_in_order
from drumline.training.run_request import RunRequest
from drumline.training.snapshots import oldest_watermark, snapshot_from, snapshot_state
from drumline.training.stop_signals import StopSignals
from drumline.types import EpisodeRow, EvaluationRow, Metrics, ProcessActivity, Span, State

if TYPE_CHECKING:
    from drumline.training.steady_recipes import ObjectiveRecipe, SteadyRecipe

_RECENT = 20
"""Individuals whose returns the curve averages."""
_ANY_ORDER = VirtualCosts(1, 1, 1)


_SAMPLED_TELLS = 200
_SAMPLED_SECONDS = 1.0


class SteadyRun:
    """Loop over events; the population says which event ends an update."""

    def __init__(self, recipe: "SteadyRecipe | ObjectiveRecipe", request: RunRequest):
        self._recipe = recipe
        self._config = config = recipe.config
        self._request = request
        self._memory, self._replay, self._population = recipe.begun()
        self._snapshot: Snapshot | None = None
        self._schedule: SteadyState | None = None
        self._recent: list[float] = []
        self._lines: list[bytes] = []
        """Event log's lines since the latest settled event."""
        self._appended: list[tuple[str, bytes]] = []
        """(segment, bytes) that the replay has gained since the latest settled event."""
        self._counted = [0, 0]
        """Env steps of training and of evaluations, at the latest record."""
        self._traffic = Traffic()
        self._idle = IdleTimes(recipe.concurrency + 1)
        self._waited = np.zeros(recipe.concurrency + 1)
        """Seconds that each logical worker's finished jobs waited, since its last update."""
        self._processes = request.layout.processes_for(recipe.concurrency)
        words = f"{self._processes} processes"
        self._ledger = request.ledger(config, recipe.searched, recipe.policy, words, recipe.critics)
        self._evaluation = EvaluationBeside(
            config, self._ledger, self._policy, inline=request.inline, beside=self._critics
        )
        if recipe.replayed is not None:
            note = RestoreNote(request.display, "the strategy", "asks and tells")
            recipe.replayed.replaying = note.counted
        if request.resumed_from is not None:
            with one_numpy_thread():  # a strategy computes its journal again, to the same bits
                self._take_over(request)
        self._settle(Snapshot() if self._snapshot is None else self._snapshot)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        return run_in_order(
            self._train,
            self._ledger,
            evaluate_last=self._evaluate_last,
            makes=[self._make_pool, self._make_evaluators],
            one_thread=one_numpy_thread,
            checkpoint=self._checkpoint,
            policy=lambda: {**self._policy(), **self._settled_critics},
            close_ledger=self._close_ledger,
            explain=self._explain,
        )

    def _say_replay(self) -> None:
        """Say at the start of a run how long a resume takes that repeats all asks and tells."""
        strategy = self._recipe.replayed
        if strategy is None or not strategy.replays_everything or not self._ledger.fresh:
            return
        began, left = time.perf_counter(), iter(range(_SAMPLED_TELLS))
        try:
            with one_numpy_thread():
                tells = strategy.sample(
                    lambda: (
                        next(left, None) is not None
                        and time.perf_counter() - began < _SAMPLED_SECONDS
                    )
                )
        except StrategyFailed:
            return  # a plan for fewer vectors than the sample: the run itself will say so
        seconds = (time.perf_counter() - began) / max(1, tells)
        self._request.display.message(
            "a resume asks and tells the strategy again all that it was asked and told: "
            f"{10_000 * seconds:.3g} s for 10,000 individuals, measured on {tells}"
        )

    def _explain(self, error: BaseException) -> None:
        explain(error)
        explain_strategy(error, self._ledger.folder, self._ledger.saved_update)

    def _close_ledger(self, spans: list[Span], activity: list[ProcessActivity]) -> None:
        spans = [span for span in spans if span.role != "evaluator"]
        if self._schedule is not None:
            spans += self._schedule.timeline()
        self._ledger.close(sorted(spans, key=lambda span: span.start), activity)

    def _make_schedule(self, pool: WorkerPool) -> SteadyState:
        recipe = self._recipe
        return SteadyState(
            self._population,
            pool,
            concurrency=recipe.concurrency,
            costs=recipe.costs or _ANY_ORDER,
            order=self._order(),
            snapshot=self._snapshot,
            asks_again=self._population.in_generations,
        )

    def _order(self) -> EventOrder:
        order = self._recipe.order
        if order is None:
            return ArrivalOrder()
        if order.replay_events:
            done = 0 if self._snapshot is None else self._snapshot.events
            workers = logged_workers(Path(order.replay_events))
            return LoggedOrder(islice(workers, done, None))
        return ArrivalOrder() if order.clock == "wall" else VirtualOrder()

    def _train(self, pool: WorkerPool, evaluators: WorkerPool, signals: StopSignals) -> None:
        ledger, evaluation, recipe = self._ledger, self._evaluation, self._recipe
        self._say_replay()
        attended = AttendedPool(pool, signals, self._tick, self._ledger.unended)
        beside = AttendedPool(evaluators, signals, lambda _: self._show(pool), self._ledger.unended)
        self._schedule = schedule = self._make_schedule(attended)
        begun = self._snapshot is not None and self._snapshot.events > 0
        if self._config.promise and not begun:
            # A resume too, after a refusal or a stop at this point.
            recipe.rehearse_calls(beside, self._policy())
        evaluation.start(beside)
        if self._ended():
            return
        evaluation.begin_if_due()  # a stop may have come between
        if ledger.ends_here(signals):
            return
        for event in schedule.events():
            self._record(event, schedule)
            self._show(pool)  # the schedule does not wait where the next result has come
            if event.index == 0 and self._config.promise:
                recipe.rehearse_episode(event, self._request.whereabouts)
            ends = ledger.ends_here(signals)  # a stop may come while an evaluation is waited for
            evaluation.begin_if_due()
            if ledger.checkpoint_due:
                self._checkpoint()
            if ledger.ends_here(signals) or ends or self._ended():
                return
        raise self._without_jobs()

    def _without_jobs(self) -> StrategyFailed:
        """Return the error of a run that has not ended and can take no further event."""
        steps = int(self._ledger.counters["env_steps"])
        return StrategyFailed(
            f"{type(self._population).__name__} asked for no job after {steps} of "
            f"{self._config.total_steps} env steps, and none is in flight: ask or ask_critic must "
            "return a job until the run has ended"
        )

    def _evaluate_last(
        self, pool: WorkerPool, evaluators: WorkerPool, signals: StopSignals
    ) -> None:
        self._evaluation.end()

    def _ended(self) -> bool:
        """Whether the run ends here; jobs in flight belong to a longer run."""
        last = self._request.last_update
        if last is not None and self._ledger.update >= last:
            return True
        return int(self._ledger.counters["env_steps"]) >= self._config.total_steps

    def _policy(self) -> dict[str, np.ndarray]:
        return {"parameters": np.array(self._population.parameters, np.float32)}

    def _settle(self, snapshot: Snapshot) -> None:
        """Keep the state to go on from, and its critics, which a job may replace at any event."""
        self._state = self._now(snapshot)
        self._settled_critics = self._critics()

    def _critics(self) -> dict[str, np.ndarray]:
        """Return the critics for policy files, from which another run may start."""
        if self._recipe.critics is None:
            return {}
        return {"critics": self._population.learned()["critics"]}

    def _record(self, event: Event, schedule: SteadyState) -> None:
        """Record an event, the update that it ends, and the state that it leaves."""
        ledger, population = self._ledger, self._population
        self._lines.append(event_line(event))
        self._idle.add(event)
        self._waited[event.worker] += event.waited_seconds
        self._appended += event.told.appended
        if event.told.episodes:
            self._record_update(event, event.told.episodes)
        if not event.told.settled:
            return
        snapshot = population.settled(schedule.snapshot())
        if self._recipe.costs is None:
            snapshot = dataclasses.replace(snapshot, now=0)  # it would say which process was quick
        # Files that only grow say no more than a checkpoint of the state that stands.
        for name, data in self._appended:
            ledger.recorder.segment(name, data)
        for line in self._lines if self._recipe.costs is not None else ():
            ledger.recorder.event(line)
        self._appended, self._lines = [], []
        self._settle(snapshot)

    def _record_update(self, event: Event, finished: Sequence[EpisodeRow]) -> None:
        ledger, population = self._ledger, self._population
        update = ledger.update + 1
        returns = [row.episode_return for row in finished]
        self._recent = [*self._recent, *returns][-_RECENT:]
        counted = [population.env_steps_counted, population.env_steps_beside]
        steps, beside = (now - then for now, then in zip(counted, self._counted, strict=True))
        self._counted = counted
        ledger.counters["env_steps_evaluation"] += beside
        ledger.record(
            update,
            self._metrics(event),
            {**self._policy(), **population.learned(), **self._replay.fingerprint()},
            [row._replace(update=update) for row in finished],
            env_steps=steps,
        )
        if rows := self._traffic.take_all(update):
            ledger.recorder.nodes(rows)

    def _metrics(self, event: Event) -> Metrics:
        return {
            "episode_return_mean": sum(self._recent) / len(self._recent),
            **self._population.row(event.told.metrics),
            **self._replay.metrics(),
            **({} if self._recipe.costs is None else self._clock(event)),
        }

    def _clock(self, event: Event) -> Metrics:
        """Return an update's virtual time, and its logical workers' idle times before it."""
        concurrency, whole = self._recipe.concurrency, self._population.in_generations
        workers = list(range(concurrency)) if whole else [event.worker]
        waited = float(self._waited[workers].sum())
        self._waited[workers] = 0.0
        return {
            "virtual_seconds": event.end * 1e-9,
            "event": float(event.index),
            **({} if whole else {"logical_worker": float(event.worker)}),
            "idle_virtual_seconds": sum(map(self._idle.take, workers)) * 1e-9,
            "critic_idle_virtual_seconds": self._idle.total(concurrency) * 1e-9,
            "waited_seconds": waited,
        }

    def _tick(self, pool: WorkerPool) -> None:
        self._evaluation.look()
        self._show(pool)

    def _show(self, pool: WorkerPool) -> None:
        self._ledger.show_if_due(lambda: [*pool.activity(), self._activity()])

    def _activity(self) -> ProcessActivity:
        """Return the driver's row: it orders events and takes no gradient steps."""
        done = self._ledger.update
        return ProcessActivity("driver", 0, os.getpid(), done, done, 0.0, 0)

    # pools

    def _make_pool(self) -> WorkerPool:
        recipe = self._recipe
        return self._request.pool(
            recipe.individuals(),
            PublishedLayout.of(self._population.arrays()),
            size=self._processes,
            versions=recipe.concurrency + 1,
            shared=self._memory,
            one_task_leases=True,
            traffic=self._traffic,
        )

    def _make_evaluators(self) -> WorkerPool:
        published = PublishedLayout.of(self._policy())
        least = self._recipe.rehearsing_workers if self._config.promise else 1
        size = min(self._processes, max(least, self._config.evaluate_episodes))
        worker = self._recipe.evaluator()
        return self._request.pool(worker, published, size=size, role="evaluator", probed=False)

    # state

    def _now(self, snapshot: Snapshot) -> State:
        """Return all state that a resume needs, between two events."""
        oldest = oldest_watermark(snapshot)
        self._segments = self._replay.segments(oldest)
        counted, beside = self._counted
        own = State(
            {"recent_returns": np.array(self._recent)},
            {"counted_env_steps": counted, "counted_beside": beside},
        )
        population = whole_state(self._population, self._population.state())
        parts = [population, self._replay.state(oldest), snapshot_state(snapshot)]
        idle = [] if self._recipe.costs is None else [self._idle.state()]
        return State.merged(*parts, own, *idle)

    def _checkpoint(self) -> None:
        state = State.merged(self._state, self._evaluation.state())
        self._ledger.checkpoint(state, self._segments)

    def _take_over(self, request: RunRequest) -> None:
        assert request.resumed_from is not None, "a run takes over the checkpoint it goes on from"
        state = learned(request.resumed_from)
        self._snapshot = snapshot_from(state)
        with segments_of(request.folder, request.resumed_from) as read:
            self._replay.load(state, read, oldest_watermark(self._snapshot))
        self._population.load(state)
        if self._recipe.costs is not None:
            self._idle.load(state)
        self._recent = state.tensor("recent_returns").tolist()
        names = ("counted_env_steps", "counted_beside")
        self._counted = [int(state.counter(name)) for name in names]
        self._evaluation.load(state)
