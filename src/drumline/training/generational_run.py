"""Run of a generational method: its strategy, pool, schedule and run folder."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from drumline.envs.environment import EnvironmentSpec
from drumline.functional.perturbation import FUSED_FROM
from drumline.policies.spec import PolicySpec
from drumline.protocols import GenerationStrategy, PublishedLayout, WorkerPool
from drumline.runs.folder import RunError
from drumline.runs.machine import SUMS
from drumline.runs.scalar_log import ScalarLog
from drumline.runtime.cluster.replicas import ReplicaFactory, UpdateLog
from drumline.runtime.cluster.traffic import Traffic
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.evaluations import is_due
from drumline.schedules.generational import Generation, GenerationPlan, generational
from drumline.tasks import Evaluate, Evaluation
from drumline.training.attended_pool import AttendedPool
from drumline.training.blame import explain, explain_strategy
from drumline.training.course import published_copy
from drumline.training.evaluations import evaluate_now, scheduled_tasks
from drumline.training.layout import SearchLayout
from drumline.training.ledger import learned
from drumline.training.method_answers import told_metrics, whole_state
from drumline.training.rare_collections import rare_collections
from drumline.training.replicas import FIXED, TellingStrategy
from drumline.training.run_order import run_in_order
from drumline.training.run_request import RunConfig, RunRequest
from drumline.training.stop_signals import StopSignals
from drumline.training.told_generations import told_of
from drumline.types import EpisodeRow, EvaluationRow, State
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.objective import Objective
from drumline.workers.objective_worker import ObjectiveSpec


@dataclass(frozen=True)
class GenerationalRecipe:
    """Parts of a generational method; they follow from its config."""

    config: RunConfig
    strategy: GenerationStrategy
    plan: GenerationPlan
    worker: EvaluatorSpec | ObjectiveSpec
    policy: PolicySpec | None
    """None with an objective."""
    shared: SharedArrays | None = None
    """Memory that all workers see: a noise table, a reference batch."""
    not_policy: tuple[str, ...] = ()
    """Published arrays that the policy files leave out."""
    replica: ReplicaFactory | None = None
    """Replica of the search on a node of a cluster; None: its update needs more than scalars."""

    @property
    def fixed(self) -> dict[str, np.ndarray]:
        """Return the arrays, never changed by an update, that a policy needs beside its own.

        They are in every checkpoint and policy file.
        """
        shared = {} if self.shared is None else self.shared.arrays
        return {name: shared[name] for name in FIXED if name in shared}

    def load(self, state: State) -> None:
        """Take over the state of a checkpoint."""
        self.strategy.load(state)
        for name, array in self.fixed.items():
            array[:] = state.tensor(name, like=array)

    def state(self) -> State:
        """Return all state for a checkpoint."""
        state = whole_state(self.strategy, self.strategy.state())
        return State({**state.tensors, **self.fixed}, state.counters)

    @property
    def facts(self) -> dict[str, str]:
        """Return how torch makes large sums, on which an update's bits depend besides versions."""
        if self.replica is None:
            return {}
        if self.strategy.published()["parameters"].size < FUSED_FROM:
            return {}
        from drumline.functional.fused_sums import roundings  # imports torch

        return {SUMS: roundings()}

    @property
    def searched(self) -> EnvironmentSpec | Objective:
        """Return the environment or the objective."""
        worker = self.worker
        return worker.objective if isinstance(worker, ObjectiveSpec) else worker.environment

    @property
    def members_per_call(self) -> int:
        """Return how many members one task evaluates, at most."""
        return self.searched.members_per_call if isinstance(self.searched, Objective) else 1

    def opened(self, request: RunRequest) -> "GenerationalRun":
        """Return the run that trains with these parts."""
        return GenerationalRun(self, request)


class GenerationalRun:
    """Loop over generations; strategy state and ledger counters change together."""

    def __init__(self, recipe: GenerationalRecipe, request: RunRequest):
        self._recipe = recipe
        self._config = config = recipe.config
        self._request = request
        if request.resumed_from is not None:
            recipe.load(learned(request.resumed_from))
        self._scalars = _scalar_log(request)
        words = request.layout.workers_in_words
        self._ledger = request.ledger(config, recipe.searched, recipe.policy, words)
        self._traffic = Traffic()
        self._updates = _update_log(recipe, request, self._ledger.update)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        ledger = self._ledger
        return run_in_order(
            self._train,
            ledger,
            evaluate_last=self._evaluate_last,
            makes=[self._make_pool],
            checkpoint=self._checkpoint,
            policy=self._policy,
            close_ledger=ledger.close,
            explain=self._explain,
        )

    def _explain(self, error: BaseException) -> None:
        explain(error, self._ledger.folder)
        explain_strategy(error, self._ledger.folder, self._ledger.saved_update)

    def _make_pool(self) -> WorkerPool:
        recipe = self._recipe
        published = PublishedLayout.of(recipe.strategy.published())
        size = self._request.layout.worker_count
        return self._request.pool(
            recipe.worker,
            published,
            size=size,
            shared=recipe.shared,
            updates=self._updates,
            traffic=self._traffic,
        )

    def _attended(self, workers: WorkerPool, signals: StopSignals) -> AttendedPool:
        return AttendedPool(
            workers,
            signals,
            lambda pool: self._ledger.show_if_due(pool.activity),
            self._ledger.unended,
            self._recipe.members_per_call,
        )

    def _train(self, workers: WorkerPool, signals: StopSignals) -> None:
        recipe, ledger = self._recipe, self._ledger
        pool = self._attended(workers, signals)
        strategy = recipe.strategy
        if self._updates is not None:
            strategy = TellingStrategy(strategy, self._updates, self._recipe.state)
        generations = generational(
            strategy,
            pool,
            recipe.plan,
            first_version=ledger.update,
            evaluation=self._scheduled,
            finished=self._finished,
            before_tell=self._record_evaluation,
            env_steps=int(ledger.counters["env_steps"]),
            name=type(recipe.strategy).__name__,  # `strategy` may be a wrapper
        )
        # In this process itself, environments and objectives may make garbage of any size.
        with nullcontext() if self._request.inline else rare_collections():
            for generation in generations:
                self._record(generation)
                if ledger.ends_here(signals):
                    pool.withdraw()  # the next generation, which a resume makes again
                    return

    def _evaluate_last(self, workers: WorkerPool, signals: StopSignals) -> None:
        published = self._published()
        pool = self._attended(workers, signals)
        evaluate_now(self._ledger, self._config, pool, published, self._policy())

    def _finished(self, update: int, env_steps: int) -> bool:
        return env_steps >= self._config.total_steps or update == self._request.last_update

    def _scheduled(self, update: int) -> Sequence[Evaluate]:
        config = self._config
        if not is_due(config.evaluate_every, update):
            return ()
        return scheduled_tasks(config, update)

    def _record(self, generation: Generation) -> None:
        steps = generation.env_steps + sum(e.length for e in generation.evaluated)
        metrics = {
            **told_metrics(self._recipe.strategy, generation.metrics),
            "env_steps_discarded": generation.env_steps_discarded,
            "env_steps_per_second": steps / max(generation.generation_seconds, 1e-9),
            "generation_seconds": generation.generation_seconds,
            "update_seconds": generation.update_seconds,
            "update_core_seconds": generation.update_core_seconds,
        }
        rows = [
            EpisodeRow(generation.update, m.member, m.sign, m.episode_return, m.length)
            for m in generation.members
        ]
        self._ledger.record(
            generation.update,
            metrics,
            self._published(),
            rows,
            env_steps=generation.env_steps,
            update_seconds=generation.update_seconds,
        )
        if rows := self._traffic.take(generation.update):
            self._ledger.recorder.nodes(rows)
        if self._scalars is not None:
            self._ledger.recorder.segment(
                *self._scalars.append(told_of(generation.update - 1, generation.members))
            )
        if self._ledger.checkpoint_due:
            self._checkpoint()

    def _record_evaluation(self, evaluated: Sequence[Evaluation]) -> None:
        self._ledger.record_evaluation(evaluated, self._policy())

    def _policy(self) -> dict[str, np.ndarray]:
        """Return the arrays of a policy file: all but the candidates of the next generation."""
        left_out = self._recipe.not_policy
        published = self._published()
        policy = {name: array for name, array in published.items() if name not in left_out}
        return {**policy, **self._recipe.fixed}

    def _published(self) -> dict[str, np.ndarray]:
        """Return copies: the recorder hashes and writes them while the strategy goes on."""
        return published_copy(self._recipe.strategy.published())

    def _checkpoint(self) -> None:
        segments = () if self._scalars is None else self._scalars.segments
        self._ledger.checkpoint(self._recipe.state(), segments)


def _update_log(recipe: GenerationalRecipe, request: RunRequest, version: int) -> UpdateLog | None:
    """Return the log of `--parameters replicas`; None: parameters are sent."""
    layout = request.layout
    if not isinstance(layout, SearchLayout) or layout.parameters == "broadcast":
        return None
    if recipe.replica is None:
        raise ValueError(
            "--parameters replicas needs an update that follows from returns and named noise, as "
            f"in es and ars; {request.folder.document['method']} sends its parameters"
        )
    return UpdateLog(recipe.replica, version, recipe.state())


def _scalar_log(request: RunRequest) -> ScalarLog | None:
    """Return the log of a run that was begun with one; RunError where it is asked for later."""
    begun_with = request.folder.document.get("layout", {}).get("keep_scalars", False)
    if begun_with:
        return ScalarLog(request.resumed_from)
    if isinstance(request.layout, SearchLayout) and request.layout.keep_scalars:
        raise RunError(
            f"{request.folder.shown} was begun without --keep-scalars, so its first generations "
            "are not in a log: resume it without the flag"
        )
    return None
