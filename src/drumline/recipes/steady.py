"""One run of a steady-state method: population, virtual clock, pool and run folder put together."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from drumline import seeding
from drumline.algorithms.actor_choice import ActorChoice
from drumline.algorithms.mirrored import evaluation_tasks
from drumline.buffers.queued_replay import QueuedReplay
from drumline.buffers.replay import Replay, ReplayShape
from drumline.buffers.replay_archive import DamagedReplay
from drumline.display.dashboard import Display
from drumline.envs.make import EnvironmentSpec, make_environment
from drumline.policies.mlp import uniform_vector
from drumline.policies.spec import PolicySpec
from drumline.protocols import Probe, PublishedLayout, WorkerPool
from drumline.recipes.aes_population import AESPopulation, PopulationPlan
from drumline.recipes.attended_pool import TICK_SECONDS, AttendedPool, StopSignals
from drumline.recipes.blame import explain
from drumline.recipes.flights import oldest_watermark, snapshot_from, snapshot_state
from drumline.recipes.idle_times import IdleTimes
from drumline.recipes.layout import SteadyLayout
from drumline.recipes.ledger import Ledger, RunIdentity, learned
from drumline.recipes.td3_jobs import TD3JobsSpec
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.event_log import event_line, logged_workers
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.segments import read_segment
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.event_order import (
    ArrivalOrder,
    EventOrder,
    LoggedOrder,
    VirtualCosts,
    VirtualOrder,
)
from drumline.schedules.generational import ImpureEnvironment
from drumline.schedules.steady_state import SteadyState
from drumline.types import (
    EpisodeRow,
    Evaluation,
    EvaluationRow,
    Event,
    Metrics,
    ProcessActivity,
    Snapshot,
    State,
)
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.refiner import RefinerSpec

_PENDING = "pending/"
_RECENT = 20
"""Individuals whose returns the curve averages."""
_METRICS = (
    *("kind", "fitness", "mean_fitness", "improvement_over_mean", "step_size", "update_norm"),
    *("accepted", "staleness_tells", "trust_region_share", "distance_moved"),
    *("variance_mean", "variance_min", "variance_max", "sampling_std", "condition_number"),
)
"""Columns of metrics.csv that every individual has, empty where its strategy says nothing."""


@dataclass(frozen=True)
class SteadyRecipe:
    """What a method hands over to be run: everything here follows from its config."""

    method: str
    config: Any
    environment: EnvironmentSpec
    policy: PolicySpec
    shape: ReplayShape
    jobs: TD3JobsSpec
    plan: PopulationPlan
    critic_sizes: tuple[int, ...]
    strategy: Any
    choice: ActorChoice
    costs: VirtualCosts


class SteadyRun:
    """The loop; an update is one individual whose end was handled."""

    def __init__(
        self,
        recipe: SteadyRecipe,
        folder: RunFolder,
        layout: SteadyLayout,
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
        self._memory = _replay_memory(recipe.shape)
        self._replay = QueuedReplay(Replay(recipe.shape, self._memory.arrays))
        self._population = AESPopulation(
            recipe.plan,
            recipe.strategy,
            recipe.choice,
            first_critics(recipe.critic_sizes, config.seed),
            self._replay,
        )
        self._snapshot: Snapshot | None = None
        self._recent: list[float] = []
        self._pending: dict[str, np.ndarray] = {}
        self._pending_update = 0
        self._pending_steps = 0
        self._finishing = False
        self._counted = [0, 0]
        """Env steps counted and beside, at the latest record."""
        self._idle = IdleTimes(config.concurrency + 1)
        self._waited = np.zeros(config.concurrency + 1)
        """Seconds that each logical worker's finished jobs waited, since its last individual."""
        self._fresh = resumed_from is None
        if resumed_from is not None:
            self._take_over(resumed_from, folder)
        self._processes = layout.processes_for(config.concurrency)
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
        self._state = self._now(Snapshot() if self._snapshot is None else self._snapshot)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        ledger = self._ledger
        pool, evaluators = self._make_pool(), self._make_evaluators()
        schedule: SteadyState | None = None
        try:
            ledger.open()
            blas = ThreadpoolController().select(internal_api="openblas")
            with StopSignals() as signals, blas.limit(limits=1):
                attended = AttendedPool(pool, signals, lambda pool: self._show(pool))
                ledger.start_display()
                if self._fresh:
                    self._checkpoint()
                try:
                    schedule = self._schedule(attended)
                    return self._train(schedule, evaluators, signals)
                except BaseException as error:
                    # Between two events everything changes together: what is in flight is pure.
                    if not self._finishing:
                        self._checkpoint()
                    explain(error, ledger.folder)
                    raise
        finally:
            try:
                pool.close()
                evaluators.close()
                spans = [*pool.timeline(), *([] if schedule is None else schedule.timeline())]
                activity = [*pool.activity(), *evaluators.activity()]
                ledger.close(sorted(spans, key=lambda span: span.start), activity)
            finally:
                self._display.close()

    def _schedule(self, pool: WorkerPool) -> SteadyState:
        order: EventOrder = VirtualOrder()
        if self._config.replay_events:
            done = 0 if self._snapshot is None else self._snapshot.events
            workers = logged_workers(Path(self._config.replay_events))
            order = LoggedOrder(islice(workers, done, None))
        elif self._config.clock == "wall":
            order = ArrivalOrder()
        return SteadyState(
            self._population,
            pool,
            concurrency=self._config.concurrency,
            costs=self._recipe.costs,
            order=order,
            snapshot=self._snapshot,
        )

    def _train(
        self, schedule: SteadyState, evaluators: WorkerPool, signals: StopSignals
    ) -> EvaluationRow | None:
        ledger = self._ledger
        if self._pending_update:
            self._submit(evaluators, self._pending_update, self._pending)
        if not self._ended():
            self._evaluate_if_due(evaluators, signals)  # a stop may have come between
            for event in schedule.events():
                self._record(event)
                self._state = self._now(schedule.snapshot())
                if event.index == 0 and self._config.promise:
                    self._rehearse(event)
                self._evaluate_if_due(evaluators, signals)
                if ledger.checkpoint_due:
                    self._checkpoint()
                if self._ended():
                    break
        # The checkpoint comes first: a longer run collects later, and has another last evaluation.
        self._checkpoint()
        self._finishing = True
        if self._pending_update != ledger.update:
            self._collect(evaluators, signals)
            self._submit(evaluators, ledger.update, self._policy())
        self._collect(evaluators, signals)
        row = ledger.last_evaluation
        ledger.save_policy("last", row, self._policy())
        return row

    def _ended(self) -> bool:
        """Whether the run ends here; what is in flight belongs to a longer one."""
        if self._last_update is not None and self._ledger.update >= self._last_update:
            return True
        return int(self._ledger.counters["env_steps"]) >= self._config.total_steps

    def _policy(self) -> dict[str, np.ndarray]:
        return {"parameters": np.array(self._population.strategy.parameters, np.float32)}

    def _record(self, event: Event) -> None:
        """Write down an event; an individual's end is an update."""
        ledger, population = self._ledger, self._population
        for name, data in population.unsaved:
            ledger.recorder.segment(name, data)
        population.unsaved = []
        ledger.recorder.event(event_line(event))
        self._idle.add(event)
        self._waited[event.worker] += event.waited_seconds
        finished = population.finished
        if finished is None or event.worker == self._config.concurrency:
            return
        population.finished = None
        update = ledger.update + 1
        self._recent = [*self._recent[1 - _RECENT :], finished.episode_return]
        counted = [population.env_steps_counted, population.env_steps_beside]
        steps, beside = (now - then for now, then in zip(counted, self._counted, strict=True))
        self._counted = counted
        ledger.counters["env_steps_evaluation"] += beside
        ledger.record(
            update,
            self._metrics(event),
            {
                **self._policy(),
                "critics": population.critics,
                "replay": self._replay.digests(),
            },
            [EpisodeRow(update, *finished[1:])],
            env_steps=steps,
            update_share=0.0,
        )

    def _metrics(self, event: Event) -> Metrics:
        waited = float(self._waited[event.worker])
        self._waited[event.worker] = 0.0
        known = {name: event.metrics.get(name, float("nan")) for name in _METRICS}
        return {
            "episode_return_mean": sum(self._recent) / len(self._recent),
            **known,
            "rl_share": self._population.rl_share,
            "critic_steps": float(self._population.critic_steps),
            "replay_transitions": float(min(self._replay.watermark, self._recipe.shape.capacity)),
            "virtual_seconds": event.end * 1e-9,
            "event": float(event.index),
            "logical_worker": float(event.worker),
            "idle_virtual_seconds": self._idle.take(event.worker) * 1e-9,
            "critic_idle_virtual_seconds": self._idle.total(self._config.concurrency) * 1e-9,
            "waited_seconds": waited,
        }

    def _show(self, pool: WorkerPool) -> None:
        self._ledger.show_if_due(lambda: [*pool.activity(), self._activity()])

    def _activity(self) -> ProcessActivity:
        """Return the driver's row: it learns nothing but the order of events."""
        done = self._ledger.update
        return ProcessActivity("driver", 0, os.getpid(), done, done, 0.0, 0)

    def _rehearse(self, event: Event) -> None:
        """Make the first episode's steps again, twice, in another environment."""
        task, lived, head = event.task, event.result, self._recipe.policy.head
        environment = make_environment(self._recipe.environment).environment
        try:
            with seeding.kept_globals():
                for _ in range(2):  # where it has run before: a fresh one may be lucky
                    seeding.seed_globals(task.seed)
                    observation, _ = environment.reset(seed=task.seed)
                    self._compare(observation, lived.observations[0], "observation", 0)
                    for step, (stored, reward) in enumerate(
                        zip(lived.actions, lived.rewards, strict=True)
                    ):
                        action = stored.astype(head.dtype).reshape(head.shape)
                        if head.kind == "discrete":
                            action = int(stored[0]) + head.start
                        observation, now, _, _, _ = environment.step(action)
                        self._compare(np.float32(now), reward, "reward", step)
                        after = lived.observations[step + 1]
                        self._compare(observation, after, "observation", step + 1)
        finally:
            environment.close()

    def _compare(self, now: Any, before: Any, what: str, step: int) -> None:
        if not np.array_equal(np.asarray(now, np.float32).reshape(-1), np.ravel(before)):
            raise ImpureEnvironment(
                f"{self._config.env}, run again with the same seed and actions, gave another "
                f"{what} at step {step}: it has hidden state that reset(seed=…) does not reset, so "
                "no result could be repeated. Mend the environment, or train without the promise "
                "with --no-promise"
            )

    # pools

    def _make_pool(self) -> WorkerPool:
        recipe, layout, config = self._recipe, self._layout, self._config
        worker = RefinerSpec(recipe.environment, recipe.policy, recipe.jobs)
        published = PublishedLayout.of(self._population.arrays())
        slots = config.concurrency + 1
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

    # scheduled evaluation

    def _evaluate_if_due(self, pool: WorkerPool, signals: StopSignals) -> None:
        """Write down the evaluation that is out and begin that of this update."""
        every, update = self._config.evaluate_every, self._ledger.update
        if every and update and update % every == 0 and self._pending_update != update:
            self._collect(pool, signals)
            self._submit(pool, update, self._policy())
            self._state = self._with_pending(self._state)

    def _submit(self, pool: WorkerPool, update: int, policy: Mapping[str, np.ndarray]) -> None:
        if self._pending_update != update:
            self._pending_steps = int(self._ledger.counters["env_steps"])
        self._pending, self._pending_update = dict(policy), update
        pool.publish(update, self._pending)
        pool.submit(evaluation_tasks(self._config.seed, update, self._config.evaluate_episodes))

    def _collect(self, pool: WorkerPool, signals: StopSignals) -> None:
        """Wait for the evaluation that is out, and write it down: always at the same update."""
        if not self._pending_update:
            return
        results: dict[int, Evaluation] = {}
        while len(results) < self._config.evaluate_episodes:
            signals.arm()
            try:
                done = pool.completed(TICK_SECONDS)
            finally:
                signals.disarm()
            results.update((item.result.member, item.result) for item in done)
        evaluated = [results[member] for member in sorted(results)]
        self._ledger.record_evaluation(evaluated, self._pending, self._pending_steps)
        self._pending, self._pending_update = {}, 0

    # state

    def _now(self, snapshot: Snapshot) -> State:
        """Return everything that goes on from here, between two events."""
        oldest = oldest_watermark(snapshot)
        replay = self._replay.state(oldest)
        parts = [self._population.state(), replay, snapshot_state(snapshot)]
        tensors = {name: array for part in parts for name, array in part.tensors.items()}
        counters = {name: value for part in parts for name, value in part.counters.items()}
        tensors["recent_returns"] = np.array(self._recent)
        tensors |= self._idle.state()
        counters["counted_env_steps"], counters["counted_beside"] = self._counted
        self._segments = self._replay.segments(oldest)
        return self._with_pending(State(tensors, counters))

    def _with_pending(self, state: State) -> State:
        tensors = {k: v for k, v in state.tensors.items() if not k.startswith(_PENDING)}
        tensors |= {_PENDING + name: array for name, array in self._pending.items()}
        more = {"pending_update": self._pending_update, "pending_steps": self._pending_steps}
        return State(tensors, {**state.counters, **more})

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._state, self._segments)

    def _take_over(self, checkpoint: Checkpoint, folder: RunFolder) -> None:
        state = learned(checkpoint)
        for name in ("pending_update", "pending_steps", "counted_env_steps", "counted_beside"):
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
        self._idle.load(state)
        self._recent = state.tensors["recent_returns"].tolist()
        self._counted = [
            int(state.counters["counted_env_steps"]),
            int(state.counters["counted_beside"]),
        ]
        self._pending_update = int(state.counters["pending_update"])
        self._pending_steps = int(state.counters["pending_steps"])
        if self._pending_update:
            name = _PENDING + "parameters"
            if name not in state.tensors:
                raise ValueError(f"the state has no tensor {name!r}")
            self._pending = {"parameters": state.tensors[name]}


def first_critics(sizes: tuple[int, ...], seed: int) -> State:
    """Return both critics at their first parameters, targets equal and moments zero."""
    critics = np.stack(
        [uniform_vector(sizes, seeding.generator(seed, "initial-critic", k)) for k in range(2)]
    )
    zeros = np.zeros(critics.size, np.float32)
    return State(
        {
            "critics": critics,
            "target_critics": critics.copy(),
            "critic_adam_first": zeros,
            "critic_adam_second": zeros.copy(),
        },
        {"critic_steps": 0},
    )


def _replay_memory(shape: ReplayShape) -> SharedArrays:
    try:
        return SharedArrays.create(PublishedLayout(shape.layout()))
    except MemoryError as error:
        raise ValueError(f"{error}; that is --replay-size {shape.capacity}") from error
