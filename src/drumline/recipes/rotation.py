"""One run of executors, actors and a learner, put together with the run folder."""

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from drumline.algorithms.mirrored import evaluation_tasks
from drumline.buffers.rollout import RolloutShape, RolloutStorage
from drumline.display.dashboard import Display
from drumline.envs.journal import Journal
from drumline.envs.lanes import LanesSpec
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.policies.heads import Head
from drumline.policies.inference import InferenceSpec
from drumline.policies.network_spec import NetworkSpec
from drumline.protocols import Crew, Learner, Probe, PublishedLayout, WorkerPool
from drumline.recipes.attended_crew import AttendedCrew
from drumline.recipes.attended_pool import TICK_SECONDS, StopSignals
from drumline.recipes.episode_tally import EpisodeTally
from drumline.recipes.layout import RotationLayout
from drumline.recipes.ledger import Ledger, RunIdentity, learned
from drumline.recipes.rehearsal import alone, rehearse
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunFolder
from drumline.runtime.crew_plan import CrewPlan
from drumline.runtime.exchange import Ownership, even_chunks
from drumline.runtime.inline_crew import InlineCrew
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_crew import ProcessCrew
from drumline.runtime.process_pool import ProcessPool
from drumline.schedules.overlapped import Interval, RotationPlan, overlapped
from drumline.types import Evaluation, EvaluationRow, ProcessActivity, Span, State
from drumline.workers.actor import ActorSpec
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.executor import ExecutorSpec, ExecutorStart

_SPANS_KEPT = 50_000
_PREVIOUS = "previous_"
_PENDING = "pending_"


@dataclasses.dataclass(frozen=True)
class RotationRecipe:
    """What a method hands over to be run: everything here follows from its config."""

    method: str
    config: Any
    lanes: LanesSpec
    renewed: bool
    """Whether the engine needs renewals to be restored exactly."""
    shape: RolloutShape
    network: NetworkSpec
    policy_head: Head | None
    plan: RotationPlan


class RotationRun:
    """The loop; the learner's state, the journal and the ledger's counters change together."""

    def __init__(
        self,
        recipe: RotationRecipe,
        folder: RunFolder,
        layout: RotationLayout,
        display: Display,
        *,
        resumed_from: Checkpoint | None = None,
        probe_factory: Callable[[], Probe] | None = None,
        last_update: int | None = None,
    ):
        """`last_update` ends the run early and changes nothing before."""
        from drumline.recipes.learners import make_learner  # imports torch: not at start-up

        config = recipe.config
        if last_update is not None:
            intervals = min(last_update, recipe.plan.intervals)
            recipe = dataclasses.replace(
                recipe, plan=dataclasses.replace(recipe.plan, intervals=intervals)
            )
        self._recipe = recipe
        self._config = config
        self._layout = layout
        self._display = display
        self._probe_factory = probe_factory
        self._executors = layout.executors_for(config.num_envs)
        self._learner: Learner = make_learner(recipe, pause=self._pause)
        self._journal = Journal(
            config.num_envs,
            config.alpha,
            renewed=recipe.renewed,
            renew_intervals=config.renew_intervals,
        )
        self._tally = EpisodeTally(config.num_envs, config.alpha, config.renew_intervals)
        self._pending: dict[str, np.ndarray] = {}
        self._pending_update = 0
        self._finishing = False
        """Whether the last checkpoint is written: what is evaluated after it is no part of it."""
        self._previous: dict[str, np.ndarray] = dict(self._learner.published())
        count = self._learner.published()["parameters"].size
        self._policy = ActorCriticSpec(recipe.network, recipe.policy_head, count)
        self._fresh = resumed_from is None
        if resumed_from is not None:
            self._take_over(learned(resumed_from))
        identity = RunIdentity(
            method=recipe.method,
            env_id=config.env,
            seed=config.seed,
            total_steps=config.total_steps,
            environment=dataclasses.asdict(recipe.lanes.environment),
            policy=dataclasses.asdict(self._policy),
            layout_words=self._words(),
        )
        self._ledger = Ledger(identity, folder, layout, display, resumed_from)
        self._crew: Crew | None = None
        self._updates: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._learned_seconds = 0.0

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        ledger = self._ledger
        crew = self._make_crew()
        pool = self._make_pool()
        self._crew = crew
        try:
            ledger.open()
            with StopSignals() as signals, threadpool_limits(1, "blas"):
                attended = AttendedCrew(crew, signals, lambda: self._show(crew))
                ledger.start_display()
                if self._fresh:
                    ledger.checkpoint(self._state())
                try:
                    return self._train(attended, crew, pool, signals)
                except BaseException:
                    # Intervals in flight are pure: the state after the last update is all there is.
                    if not self._finishing:
                        ledger.checkpoint(self._state())
                    raise
        finally:
            try:
                pool.close()
                crew.close()
                spans = [*crew.timeline(), *pool.timeline(), *self._updates]
                activity = [*crew.activity(), *pool.activity(), self._learner_activity()]
                ledger.close(sorted(spans, key=lambda span: span.start), activity)
            finally:
                self._display.close()

    def _words(self) -> str:
        if self._layout.pool == "inline":
            return "inline"
        words = f"{self._executors} executor{'s' if self._executors > 1 else ''}"
        return f"{words}, {self._layout.actors} actors" if self._layout.actors else words

    # the far side

    def _make_crew(self) -> Any:
        recipe, layout, config = self._recipe, self._layout, self._config
        actors = min(layout.actors, config.num_envs)
        bounds = even_chunks(config.num_envs, self._executors)
        served = even_chunks(config.num_envs, actors) if actors else (0,)
        rows = max(0, config.inference_rows)  # not resolved: MLPs keep their bits in any batch
        inference = InferenceSpec(recipe.network, config.precision, rows)
        executor = ExecutorSpec(
            lanes=recipe.lanes,
            bounds=bounds,
            shape=recipe.shape,
            head=recipe.network.head,
            seed=config.seed,
            inference=None if actors else inference,
            renew_intervals=config.renew_intervals if recipe.renewed else 0,
        )
        actor = ActorSpec(served, recipe.shape, recipe.network.head, inference) if actors else None
        plan = CrewPlan(
            ownership=Ownership(bounds, served),
            executor=executor,
            actor=actor,
            storage=recipe.shape.layout(),
            published=PublishedLayout.of(self._learner.published()),
            start_of=self._start_of,
            place_of=self._place_of,
        )
        self._bounds, self._served = bounds, served
        if layout.pool == "inline":
            return InlineCrew(plan, probe_factory=self._probe_factory)
        return ProcessCrew(
            plan,
            hang_seconds=layout.hang_seconds,
            probe_factory=self._probe_factory,
            log=self._display.message,
        )

    def _make_pool(self) -> WorkerPool:
        """Return who evaluates: one worker beside the crew, idle most of the time."""
        worker = EvaluatorSpec(self._recipe.lanes.environment, self._policy, noise_seed=0)
        published = PublishedLayout.of(self._learner.published())
        if self._layout.pool == "inline":
            return InlinePool(worker, published=published, role="evaluator")
        return ProcessPool(
            worker,
            size=1,
            published=published,
            hang_seconds=self._layout.hang_seconds,
            role="evaluator",
            log=self._display.message,
        )

    def _start_of(self, role: str, index: int) -> ExecutorStart | None:
        if role != "executor":
            return None
        assert self._crew is not None, "roles are started by a crew"
        crew: Any = self._crew
        storage = RolloutStorage(self._recipe.shape, crew.arrays)
        finished = crew.exchange.finished
        return ExecutorStart(
            [
                self._journal.history(environment, int(finished[environment]), storage.read)
                for environment in range(*self._bounds[index : index + 2])
            ]
        )

    def _place_of(self, role: str, index: int) -> str:
        bounds = self._bounds if role == "executor" else self._served
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

    def _train(
        self, attended: AttendedCrew, crew: Any, pool: WorkerPool, signals: StopSignals
    ) -> EvaluationRow | None:
        ledger, plan, config = self._ledger, self._recipe.plan, self._config
        first = ledger.update
        if self._pending_update:
            self._submit(pool, self._pending_update, self._pending)
        if first and first < plan.intervals and self._pending_update != first:
            self._evaluate_if_due(pool, signals, first)  # a stop may have come between
        if first < plan.intervals:
            self._publish_first(crew, first)
            storage = RolloutStorage(self._recipe.shape, crew.arrays)
            steps = overlapped(
                self._learner,
                attended,
                storage,
                plan,
                first=first,
                before_release=self._before_release,
            )
            for interval in steps:
                self._previous = {
                    name: array.copy()
                    for name, array in crew.published(interval.version - 1).items()
                }
                self._record(interval)
                if interval.update == 1 and config.promise:
                    rehearse(self._recipe.lanes, self._first, config.env)
                self._evaluate_if_due(pool, signals, interval.update)
                if ledger.checkpoint_due:
                    ledger.checkpoint(self._state())
        # The checkpoint comes first: a longer run collects later, and has another last evaluation.
        ledger.checkpoint(self._state())
        self._finishing = True
        if self._pending_update != ledger.update:
            self._collect(pool, signals)
            self._submit(pool, ledger.update, self._learner.published())
        self._collect(pool, signals)
        row = ledger.last_evaluation
        ledger.save_policy("last", row, self._learner.published())
        return row

    def _publish_first(self, crew: Any, first: int) -> None:
        """Publish the versions that exist before interval `first`, and start the roles."""
        plan = self._recipe.plan
        crew.publish(first, self._previous if plan.lag else self._learner.published())
        if plan.lag:
            crew.publish(first + 1, self._learner.published())
        crew.exchange.finished[:] = first * plan.alpha
        ahead = plan.lag if plan.barrier == "sliding" else 0
        crew.exchange.release(first + ahead)
        crew.start()

    def _before_release(self, interval: Interval) -> None:
        self._journal.fold(interval.rollout)
        self._tally.fold(interval.rollout)
        if interval.update == 1:
            self._first = alone(interval.rollout)

    def _record(self, interval: Interval) -> None:
        config, tally = self._config, self._tally
        episodes = tally.take()
        steps = config.num_envs * config.alpha
        seconds = interval.waited_seconds + interval.update_ended - interval.update_began
        metrics = {
            "episode_return_mean": tally.recent_mean,
            "episodes_cut": float(tally.cut),
            **interval.metrics,
            "policy_lag": float(self._recipe.plan.lag),
            "env_steps_per_second": steps / max(seconds, 1e-9),
            "interval_seconds": seconds,
            "waited_seconds": interval.waited_seconds,
            "update_seconds": interval.update_ended - interval.update_began,
            "update_core_seconds": interval.update_core_seconds,
        }
        self._updates.append(Span("learner", 0, interval.update_began, interval.update_ended, 1))
        self._learned_seconds += interval.update_ended - interval.update_began
        share = 1.0 - interval.waited_seconds / max(seconds, 1e-9)
        self._ledger.record(
            interval.update,
            metrics,
            {name: np.array(array) for name, array in self._learner.published().items()},
            episodes,
            env_steps=steps,
            update_share=share,
        )

    def _pause(self) -> None:
        """Look after the crew between gradient computations."""
        if self._crew is not None:
            self._crew.look()

    def _show(self, crew: Any) -> None:
        self._ledger.show_if_due(lambda: [*crew.activity(), self._learner_activity()])

    def _learner_activity(self) -> ProcessActivity:
        """Return what the driver itself has done as the learner."""
        done, seconds = self._ledger.update, self._learned_seconds
        return ProcessActivity("learner", 0, os.getpid(), done, done, seconds, 0)

    # evaluation

    def _evaluate_if_due(self, pool: WorkerPool, signals: StopSignals, update: int) -> None:
        """Write down the evaluation that is out and begin that of this update."""
        every = self._config.evaluate_every
        if every and update % every == 0:
            self._collect(pool, signals)
            self._submit(pool, update, self._learner.published())

    def _submit(self, pool: WorkerPool, update: int, policy: Mapping[str, np.ndarray]) -> None:
        self._pending = {name: np.array(array) for name, array in policy.items()}
        self._pending_update = update
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
        steps = self._pending_update * self._config.num_envs * self._config.alpha
        evaluated = [results[member] for member in sorted(results)]
        self._ledger.record_evaluation(evaluated, self._pending, steps)
        self._pending, self._pending_update = {}, 0

    # state

    def _state(self) -> State:
        parts = [self._learner.state(), self._journal.state(), self._tally.state()]
        tensors = {name: array for part in parts for name, array in part.tensors.items()}
        counters = {name: value for part in parts for name, value in part.counters.items()}
        tensors.update({_PREVIOUS + k: np.array(v) for k, v in self._previous.items()})
        tensors.update({_PENDING + k: v for k, v in self._pending.items()})
        counters["pending_update"] = self._pending_update
        return State(tensors, counters)

    def _take_over(self, state: State) -> None:
        self._learner.load(state)
        self._journal.load(state)
        self._tally.load(state)
        if "pending_update" not in state.counters:
            raise ValueError("the state has no counter 'pending_update'")
        self._pending_update = int(state.counters["pending_update"])
        names = list(self._learner.published())
        self._previous = _taken(state, _PREVIOUS, names)
        if self._pending_update:
            self._pending = _taken(state, _PENDING, names)


def _taken(state: State, prefix: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    for name in names:
        if prefix + name not in state.tensors:
            raise ValueError(f"the state has no tensor {prefix + name!r}")
    return {name: state.tensors[prefix + name].copy() for name in names}
