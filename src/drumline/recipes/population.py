"""One run of a population method: strategy, pool, schedule and run folder put together."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.algorithms.candidate_generations import POPULATION
from drumline.algorithms.mirrored import evaluation_tasks
from drumline.display.dashboard import Display
from drumline.policies.spec import PolicySpec
from drumline.protocols import Probe, PublishedLayout, Strategy, WorkerPool
from drumline.recipes.attended_pool import AttendedPool, StopSignals
from drumline.recipes.blame import explain
from drumline.recipes.layout import Layout
from drumline.recipes.ledger import Ledger, RunIdentity, learned
from drumline.recipes.run_order import run_in_order
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunFolder
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.generational import (
    Generation,
    GenerationPlan,
    evaluate_now,
    generational,
)
from drumline.types import EpisodeRow, Evaluation, EvaluationRow
from drumline.workers.evaluator import EvaluatorSpec


@dataclass(frozen=True)
class PopulationRecipe:
    """What a method hands over to be run: everything here follows from its config."""

    method: str
    env_id: str
    seed: int
    total_steps: int
    strategy: Strategy
    plan: GenerationPlan
    worker: EvaluatorSpec
    policy: PolicySpec
    shared: SharedArrays | None
    evaluate_every: int
    evaluate_episodes: int


class PopulationRun:
    """The loop; the strategy's state and the ledger's counters change together."""

    def __init__(
        self,
        recipe: PopulationRecipe,
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
        self._last_update = last_update
        self._layout = layout
        self._display = display
        self._probe_factory = probe_factory
        if resumed_from is not None:
            recipe.strategy.load(learned(resumed_from))
        words = "inline" if layout.pool == "inline" else f"{layout.worker_count} workers"
        identity = RunIdentity(
            method=recipe.method,
            env_id=recipe.env_id,
            seed=recipe.seed,
            total_steps=recipe.total_steps,
            environment=dataclasses.asdict(recipe.worker.environment),
            policy=dataclasses.asdict(recipe.policy),
            layout_words=words,
        )
        self._ledger = Ledger(identity, folder, layout, display, resumed_from)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        ledger = self._ledger
        published = PublishedLayout.of(self._recipe.strategy.published())
        return run_in_order(
            self._train,
            ledger,
            makes=[lambda: self._make_pool(published)],
            checkpoint=self._checkpoint,
            policy=self._policy,
            close_ledger=ledger.close,
            explain=lambda error: explain(error, ledger.folder),
        )

    def _make_pool(self, published: PublishedLayout) -> WorkerPool:
        recipe, layout = self._recipe, self._layout
        if layout.pool == "inline":
            return InlinePool(
                recipe.worker,
                published=published,
                shared=recipe.shared,
                probe_factory=self._probe_factory,
            )
        return ProcessPool(
            recipe.worker,
            size=layout.worker_count,
            published=published,
            shared=recipe.shared,
            hang_seconds=layout.hang_seconds,
            probe_factory=self._probe_factory,
            log=self._display.message,
        )

    def _train(self, workers: WorkerPool, signals: StopSignals) -> EvaluationRow | None:
        recipe, ledger = self._recipe, self._ledger
        pool = AttendedPool(workers, signals, lambda pool: ledger.show_if_due(pool.activity))
        generations = generational(
            recipe.strategy,
            pool,
            recipe.plan,
            first_version=ledger.update,
            evaluation=self._scheduled,
            finished=self._finished,
            before_tell=self._record_evaluation,
            env_steps=int(ledger.counters["env_steps"]),
        )
        for generation in generations:
            self._record(generation)
        # The checkpoint comes first: a longer run must not count this evaluation as its own.
        self._checkpoint()
        ledger.finishing = True
        tasks = evaluation_tasks(recipe.seed, ledger.update, recipe.evaluate_episodes)
        row = None
        if tasks:
            self._record_evaluation(evaluate_now(recipe.strategy, pool, ledger.update, tasks))
            row = ledger.last_evaluation
        ledger.save_policy("last", row, self._policy())
        return row

    def _finished(self, update: int, env_steps: int) -> bool:
        return env_steps >= self._recipe.total_steps or update == self._last_update

    def _scheduled(self, update: int) -> Sequence[Any]:
        every = self._recipe.evaluate_every
        if every <= 0 or update == 0 or update % every:
            return ()
        return evaluation_tasks(self._recipe.seed, update, self._recipe.evaluate_episodes)

    def _record(self, generation: Generation) -> None:
        steps = generation.env_steps + sum(e.length for e in generation.evaluated)
        metrics = {
            **generation.metrics,
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
            self._recipe.strategy.published(),
            rows,
            env_steps=generation.env_steps,
            update_share=generation.update_seconds / max(generation.generation_seconds, 1e-9),
        )
        if self._ledger.checkpoint_due:
            self._checkpoint()

    def _record_evaluation(self, evaluated: Sequence[Evaluation]) -> None:
        self._ledger.record_evaluation(evaluated, self._policy())

    def _policy(self) -> dict[str, np.ndarray]:
        """Return what a policy file holds: not the candidates of the next generation."""
        published = self._recipe.strategy.published()
        return {name: array for name, array in published.items() if name != POPULATION}

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._recipe.strategy.state())
