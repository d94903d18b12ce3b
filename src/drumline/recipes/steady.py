"""One run of a steady-state method: population, virtual clock, pool and run folder put together."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import Replay, ReplayShape
from drumline.buffers.replay_archive import DamagedReplay
from drumline.display.dashboard import Display
from drumline.envs.make import EnvironmentSpec
from drumline.policies.spec import PolicySpec
from drumline.protocols import Probe, PublishedLayout, WorkerPool
from drumline.recipes.attended_pool import AttendedPool, StopSignals
from drumline.recipes.blame import explain, explain_strategy
from drumline.recipes.flights import oldest_watermark, snapshot_from, snapshot_state
from drumline.recipes.idle_times import IdleTimes
from drumline.recipes.layout import Layout
from drumline.recipes.ledger import Ledger, RunIdentity, learned
from drumline.recipes.living_population import LivingPopulation
from drumline.recipes.rehearsal import rehearse_episode
from drumline.recipes.replay_memory import replay_memory
from drumline.recipes.run_order import one_numpy_thread, run_in_order
from drumline.recipes.scheduled_evaluation import ScheduledEvaluation
from drumline.recipes.td3_jobs import TD3JobsSpec
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.event_log import event_line, logged_workers
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.segments import read_segment
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.schedules.event_order import (
    ArrivalOrder,
    EventOrder,
    LoggedOrder,
    VirtualCosts,
    VirtualOrder,
)
from drumline.schedules.steady_state import SteadyState
from drumline.types import (
    EpisodeRow,
    EvaluationRow,
    Event,
    Metrics,
    ProcessActivity,
    Snapshot,
    Span,
    State,
)
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.refiner import RefinerSpec

_RECENT = 20
"""Individuals whose returns the curve averages."""
_ANY_ORDER = VirtualCosts(1, 1, 1)


@dataclass(frozen=True)
class SteadyRecipe:
    """What a method hands over to be run: everything here follows from its config."""

    method: str
    config: Any
    environment: EnvironmentSpec
    policy: PolicySpec
    shape: ReplayShape
    jobs: TD3JobsSpec
    population: Callable[[QueuedReplay], LivingPopulation]
    concurrency: int
    longest_episode: int
    """Env steps that the replay was laid out for."""
    costs: VirtualCosts | None
    """None: what is learned does not depend on the order in which jobs end."""


class SteadyRun:
    """The loop; an update is whatever the population calls finished."""

    def __init__(
        self,
        recipe: SteadyRecipe,
        folder: RunFolder,
        layout: Layout,
        display: Display,
        *,
        resumed_from: Checkpoint | None = None,
        probe_factory: Callable[[], Probe] | None = None,
        last_update: int | None = None,
    ):
        """`last_update` ends the run early and changes nothing before."""
        self._recipe = recipe
        self._config = config = recipe.config
        self._layout = layout
        self._display = display
        self._probe_factory = probe_factory
        self._last_update = last_update
        self._memory = replay_memory(recipe.shape)
        self._replay = QueuedReplay(
            Replay(recipe.shape, self._memory.arrays), recipe.longest_episode
        )
        self._population = recipe.population(self._replay)
        self._snapshot: Snapshot | None = None
        self._schedule: SteadyState | None = None
        self._recent: list[float] = []
        self._lines: list[bytes] = []
        """Events since the latest that settled."""
        self._counted = [0, 0]
        """Env steps counted and beside, at the latest record."""
        self._idle = IdleTimes(recipe.concurrency + 1)
        self._waited = np.zeros(recipe.concurrency + 1)
        """Seconds that each logical worker's finished jobs waited, since its last update."""
        self._processes = layout.processes_for(recipe.concurrency)
        words = "inline" if layout.pool == "inline" else f"{self._processes} processes"
        identity = RunIdentity(
            method=recipe.method,
            env_id=config.env,
            seed=config.seed,
            total_steps=config.total_steps,
            environment=dataclasses.asdict(recipe.environment),
            policy=dataclasses.asdict(recipe.policy),
            layout_words=words,
        )
        self._ledger = Ledger(identity, folder, layout, display, resumed_from)
        self._evaluation = ScheduledEvaluation(config, self._ledger, self._policy)
        if resumed_from is not None:
            with one_numpy_thread():  # a strategy computes its journal again, to the same bits
                self._take_over(resumed_from, folder)
        self._state = self._now(Snapshot() if self._snapshot is None else self._snapshot)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        return run_in_order(
            self._train,
            self._ledger,
            makes=[self._make_pool, self._make_evaluators],
            one_thread=one_numpy_thread,
            checkpoint=self._checkpoint,
            policy=self._policy,
            close_ledger=self._close_ledger,
            explain=self._explain,
        )

    def _explain(self, error: BaseException) -> None:
        explain(error)
        explain_strategy(error, self._ledger.folder, self._ledger.update)

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
            order=ArrivalOrder() if recipe.costs is None else self._order(),
            snapshot=self._snapshot,
            asks_again=self._population.in_generations,
        )

    def _order(self) -> EventOrder:
        if self._config.replay_events:
            done = 0 if self._snapshot is None else self._snapshot.events
            workers = logged_workers(Path(self._config.replay_events))
            return LoggedOrder(islice(workers, done, None))
        return ArrivalOrder() if self._config.clock == "wall" else VirtualOrder()

    def _train(
        self, pool: WorkerPool, evaluators: WorkerPool, signals: StopSignals
    ) -> EvaluationRow | None:
        ledger, evaluation = self._ledger, self._evaluation
        attended = AttendedPool(pool, signals, self._show)
        self._schedule = schedule = self._make_schedule(attended)
        evaluation.begin_again(evaluators)
        if not self._ended():
            self._evaluate_if_due(evaluators, signals)  # a stop may have come between
            for event in schedule.events():
                self._record(event, schedule)
                if event.index == 0 and self._config.promise:
                    rehearse_episode(
                        self._recipe.environment, self._recipe.policy.head, event.task, event.result
                    )
                self._evaluate_if_due(evaluators, signals)
                if ledger.checkpoint_due:
                    self._checkpoint()
                if self._ended():
                    break
        # The checkpoint comes first: a longer run collects later, and has another last evaluation.
        self._checkpoint()
        ledger.finishing = True
        evaluation.end(evaluators, signals)
        return ledger.last_evaluation

    def _evaluate_if_due(self, pool: WorkerPool, signals: StopSignals) -> None:
        if self._evaluation.begin_if_due(pool, signals):
            self._state = self._with_evaluation(self._state)

    def _ended(self) -> bool:
        """Whether the run ends here; what is in flight belongs to a longer one."""
        if self._last_update is not None and self._ledger.update >= self._last_update:
            return True
        return int(self._ledger.counters["env_steps"]) >= self._config.total_steps

    def _policy(self) -> dict[str, np.ndarray]:
        return {"parameters": np.array(self._population.parameters, np.float32)}

    def _record(self, event: Event, schedule: SteadyState) -> None:
        """Write down an event, the update that it ends, and the state that it leaves."""
        ledger, population = self._ledger, self._population
        self._lines.append(event_line(event))
        self._idle.add(event)
        self._waited[event.worker] += event.waited_seconds
        if finished := population.finished():
            self._record_update(event, finished)
        snapshot = population.settled(schedule.snapshot())
        if snapshot is None:
            return
        if self._recipe.costs is None:
            snapshot = dataclasses.replace(snapshot, now=0)  # it would say who was quick
        # Files that only grow say no more than a checkpoint of the state that stands.
        for name, data in population.unsaved:
            ledger.recorder.segment(name, data)
        population.unsaved = []
        for line in self._lines if self._recipe.costs is not None else ():
            ledger.recorder.event(line)
        self._lines = []
        self._state = self._now(snapshot)

    def _record_update(self, event: Event, finished: list[EpisodeRow]) -> None:
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
            {**self._policy(), **population.learned(), "replay": self._replay.digests()},
            [row._replace(update=update) for row in finished],
            env_steps=steps,
            update_share=0.0,
        )

    def _metrics(self, event: Event) -> Metrics:
        return {
            "episode_return_mean": sum(self._recent) / len(self._recent),
            **self._population.metrics(event.metrics),
            "replay_transitions": float(min(self._replay.watermark, self._recipe.shape.capacity)),
            **({} if self._recipe.costs is None else self._clock(event)),
        }

    def _clock(self, event: Event) -> Metrics:
        """Return when an update was, and how long its logical workers were idle before."""
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

    def _show(self, pool: WorkerPool) -> None:
        self._ledger.show_if_due(lambda: [*pool.activity(), self._activity()])

    def _activity(self) -> ProcessActivity:
        """Return the driver's row: it learns nothing but the order of events."""
        done = self._ledger.update
        return ProcessActivity("driver", 0, os.getpid(), done, done, 0.0, 0)

    # pools

    def _make_pool(self) -> WorkerPool:
        recipe, layout = self._recipe, self._layout
        worker = RefinerSpec(recipe.environment, recipe.policy, recipe.jobs)
        published = PublishedLayout.of(self._population.arrays())
        slots = recipe.concurrency + 1
        if layout.pool == "inline":
            return InlinePool(
                worker,
                published=published,
                versions=slots,
                shared=self._memory,
                probe_factory=self._probe_factory,
            )
        return ProcessPool(
            worker,
            size=self._processes,
            published=published,
            versions=slots,
            shared=self._memory,
            hang_seconds=layout.hang_seconds,
            one_task_leases=True,
            probe_factory=self._probe_factory,
            log=self._display.message,
        )

    def _make_evaluators(self) -> WorkerPool:
        recipe, layout = self._recipe, self._layout
        worker = EvaluatorSpec(recipe.environment, recipe.policy, noise_seed=0)
        published = PublishedLayout.of(self._policy())
        if layout.pool == "inline":
            return InlinePool(worker, published=published, role="evaluator")
        return ProcessPool(
            worker,
            size=1,
            published=published,
            hang_seconds=layout.hang_seconds,
            role="evaluator",
            log=self._display.message,
        )

    # state

    def _now(self, snapshot: Snapshot) -> State:
        """Return everything that goes on from here, between two events."""
        oldest = oldest_watermark(snapshot)
        replay = self._replay.state(oldest)
        parts = [self._population.state(), replay, snapshot_state(snapshot)]
        tensors = {name: array for part in parts for name, array in part.tensors.items()}
        counters = {name: value for part in parts for name, value in part.counters.items()}
        tensors["recent_returns"] = np.array(self._recent)
        if self._recipe.costs is not None:
            tensors |= self._idle.state()
        counters["counted_env_steps"], counters["counted_beside"] = self._counted
        self._segments = self._replay.segments(oldest)
        return self._with_evaluation(State(tensors, counters))

    def _with_evaluation(self, state: State) -> State:
        out = self._evaluation.state()
        return State({**state.tensors, **out.tensors}, {**state.counters, **out.counters})

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._state, self._segments)

    def _take_over(self, checkpoint: Checkpoint, folder: RunFolder) -> None:
        state = learned(checkpoint)
        for name in ("counted_env_steps", "counted_beside"):
            if name not in state.counters:
                raise ValueError(f"the state has no counter {name!r}")
        if "recent_returns" not in state.tensors:
            raise ValueError("the state has no tensor 'recent_returns'")
        self._snapshot = snapshot_from(state)
        try:
            self._replay.load(
                state,
                lambda name: read_segment(folder, checkpoint, name),
                oldest_watermark(self._snapshot),
            )
        except DamagedReplay as error:
            raise RunError(
                f"{folder.path} cannot go on: {error}; go on from an older checkpoint with "
                "--checkpoint, or start the run again with another --out"
            ) from error
        self._population.load(state)
        if self._recipe.costs is not None:
            self._idle.load(state)
        self._recent = state.tensors["recent_returns"].tolist()
        self._counted = [
            int(state.counters["counted_env_steps"]),
            int(state.counters["counted_beside"]),
        ]
        self._evaluation.load(state)
