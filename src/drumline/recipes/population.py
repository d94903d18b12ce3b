"""One run of a population method: strategy, pool, schedule and run folder put together."""

import dataclasses
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version as package_version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from drumline.algorithms.mirrored import evaluation_tasks
from drumline.display.dashboard import Display
from drumline.display.state import DisplayState, RunTitle, Throughput
from drumline.policies.spec import PolicySpec
from drumline.protocols import Probe, PublishedLayout, Strategy, WorkerPool
from drumline.recipes.attended_pool import AttendedPool, Stopped, StopSignals
from drumline.recipes.blame import explain
from drumline.recipes.layout import Layout
from drumline.runs.card import RunCard, write_card
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.recorder import Recorder
from drumline.runs.timeline import write_processes, write_timeline
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays
from drumline.schedules.generational import (
    Generation,
    GenerationPlan,
    evaluate_now,
    generational,
)
from drumline.types import EpisodeRow, Evaluation, EvaluationRow, State, UpdateRecord
from drumline.workers.evaluator import EvaluatorSpec

PROMISE = (
    "the same bits for any number of workers, through kills and resumes, "
    "on one CPU type and one set of versions"
)


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
    """Counters and the loop; the strategy's state and these counters change together."""

    def __init__(
        self,
        recipe: PopulationRecipe,
        folder: RunFolder,
        layout: Layout,
        display: Display,
        *,
        resumed_from: Checkpoint | None = None,
        probe_factory: Callable[[], Probe] | None = None,
    ):
        self._recipe = recipe
        self._folder = folder
        self._layout = layout
        self._display = display
        self._probe_factory = probe_factory
        self._resumed_from = resumed_from
        self._update = 0
        self._counters: dict[str, int | float] = {
            "env_steps": 0,
            "episodes": 0,
            "env_steps_evaluation": 0,
            "best_evaluation": -np.inf,
        }
        self._wall_before = 0.0
        if resumed_from is not None:
            self._take_over(resumed_from)
        self._began = self._checkpointed = time.perf_counter()
        self._throughput = Throughput()
        self._curve: list[float] = []
        self._last: Generation | None = None
        self._skipped = 0
        self._best: EvaluationRow | None = None
        self._last_evaluation: EvaluationRow | None = None

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        recipe, layout = self._recipe, self._layout
        published = PublishedLayout.of(recipe.strategy.published())
        pool = self._make_pool(published)
        recorder: Recorder | None = None
        try:
            recorder = Recorder(
                self._folder, tensorboard=layout.tensorboard, resumed_from=self._resumed_from
            )
            with StopSignals() as signals, threadpool_limits(1, "blas"):
                attended = AttendedPool(pool, signals, self._show_if_due)
                self._start_display()
                if self._resumed_from is None:
                    self._checkpoint(recorder)
                try:
                    return self._train(attended, recorder)
                except BaseException as error:
                    # What is in flight is pure: the state after the last update is all there is.
                    self._checkpoint(recorder)
                    explain(error, self._folder)
                    raise
        finally:
            try:
                pool.close()
                if recorder is not None:
                    recorder.close()
                    self._write_layout(recorder, pool)
            finally:
                self._display.close()

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

    def _train(self, pool: WorkerPool, recorder: Recorder) -> EvaluationRow | None:
        recipe = self._recipe
        generations = generational(
            recipe.strategy,
            pool,
            recipe.plan,
            first_version=self._update,
            evaluation=self._scheduled,
            finished=lambda update, env_steps: env_steps >= recipe.total_steps,
            before_tell=lambda evaluated: self._record_evaluation(recorder, evaluated),
            env_steps=int(self._counters["env_steps"]),
        )
        for generation in generations:
            self._record(recorder, generation)
        self._checkpoint(recorder)
        tasks = evaluation_tasks(recipe.seed, self._update, recipe.evaluate_episodes)
        # The checkpoint comes first: a longer run must not count this evaluation as its own.
        row = None
        if tasks:
            self._record_evaluation(
                recorder, evaluate_now(recipe.strategy, pool, self._update, tasks)
            )
            row = self._last_evaluation
        self._save_policy(recorder, "last", row)
        return row

    def _scheduled(self, update: int) -> Sequence[Any]:
        every = self._recipe.evaluate_every
        if every <= 0 or update == 0 or update % every:
            return ()
        return evaluation_tasks(self._recipe.seed, update, self._recipe.evaluate_episodes)

    def _record(self, recorder: Recorder, generation: Generation) -> None:
        counters = self._counters
        self._update = generation.update
        counters["env_steps"] += generation.env_steps
        counters["episodes"] += len(generation.members)
        wall = self._wall_seconds()
        self._curve.append(generation.metrics["episode_return_mean"])
        self._skipped += int(generation.metrics["update_skipped"])
        self._last = generation
        steps = generation.env_steps + sum(e.length for e in generation.evaluated)
        metrics = {
            "env_steps": counters["env_steps"],
            "episodes": counters["episodes"],
            "wall_seconds": wall,
            **generation.metrics,
            "env_steps_evaluation": counters["env_steps_evaluation"],
            "env_steps_discarded": generation.env_steps_discarded,
            "env_steps_per_second": steps / max(generation.generation_seconds, 1e-9),
            "generation_seconds": generation.generation_seconds,
            "update_seconds": generation.update_seconds,
            "update_core_seconds": generation.update_core_seconds,
        }
        rows = tuple(
            EpisodeRow(generation.update, m.member, m.sign, m.episode_return, m.length)
            for m in generation.members
        )
        published = dict(self._recipe.strategy.published())
        recorder.update(UpdateRecord(generation.update, metrics, published, rows))
        if time.perf_counter() - self._checkpointed >= 60.0 * self._layout.checkpoint_minutes:
            self._checkpoint(recorder)

    def _record_evaluation(self, recorder: Recorder, evaluated: Sequence[Evaluation]) -> None:
        if not evaluated:
            return
        counters = self._counters
        returns = tuple(result.episode_return for result in evaluated)
        lengths = tuple(result.length for result in evaluated)
        counters["env_steps_evaluation"] += sum(lengths)
        row = EvaluationRow(evaluated[0].version, int(counters["env_steps"]), returns, lengths)
        recorder.evaluation(row)
        self._last_evaluation = row
        mean = float(np.mean(returns))
        if mean > counters["best_evaluation"]:
            counters["best_evaluation"] = mean
            self._best = row
            self._save_policy(recorder, "best", row)

    def _save_policy(self, recorder: Recorder, name: str, row: EvaluationRow | None) -> None:
        document = {
            "format": 1,
            "method": self._recipe.method,
            "environment": dataclasses.asdict(self._recipe.worker.environment),
            "policy": dataclasses.asdict(self._recipe.policy),
            "update": self._update if row is None else row.update,
            "evaluation_mean": None if row is None else float(np.mean(row.returns)),
        }
        recorder.policy(name, dict(self._recipe.strategy.published()), document)

    def _checkpoint(self, recorder: Recorder) -> None:
        state = self._recipe.strategy.state()
        counters = {**state.counters, **{f"run_{k}": v for k, v in self._counters.items()}}
        extra = {"wall_seconds": self._wall_seconds()}
        recorder.checkpoint(self._update, State(state.tensors, counters), extra)
        self._checkpointed = time.perf_counter()

    def _take_over(self, checkpoint: Checkpoint) -> None:
        counters = checkpoint.state.counters
        for name in self._counters:
            if f"run_{name}" not in counters:
                raise ValueError(f"the state has no counter 'run_{name}'")
            self._counters[name] = counters[f"run_{name}"]
        self._recipe.strategy.load(learned(checkpoint))
        self._update = checkpoint.update
        self._wall_before = float(checkpoint.extra["wall_seconds"])

    def _wall_seconds(self) -> float:
        return self._wall_before + time.perf_counter() - self._began

    def _start_display(self) -> None:
        recipe, layout = self._recipe, self._layout
        words = "inline" if layout.pool == "inline" else f"{layout.worker_count} workers"
        title = RunTitle(recipe.method, recipe.env_id, recipe.seed, words, str(self._folder.path))
        self._display.start(title)
        self._throughput.add(int(self._counters["env_steps"]), time.perf_counter())

    def _show_if_due(self, pool: WorkerPool) -> None:
        if not self._display.due() or self._last is None:
            return
        now = time.perf_counter()
        self._throughput.add(int(self._counters["env_steps"]), now)
        activity = pool.activity()
        busy: dict[int, float] = {}
        for row in activity:
            busy[row.index] = busy.get(row.index, 0.0) + row.busy_seconds
        elapsed = max(now - self._began, 1e-9)
        last, best = self._last, float(self._counters["best_evaluation"])
        evaluation = self._last_evaluation
        self._display.update(
            DisplayState(
                method=self._recipe.method,
                env_id=self._recipe.env_id,
                update=self._update,
                env_steps=int(self._counters["env_steps"]),
                total_steps=self._recipe.total_steps,
                episodes=int(self._counters["episodes"]),
                wall_seconds=self._wall_seconds(),
                return_curve=self._curve,
                evaluation_mean=None if evaluation is None else float(np.mean(evaluation.returns)),
                evaluation_best=best if np.isfinite(best) else None,
                env_steps_per_second_10s=self._throughput.recent(),
                env_steps_per_second_run=self._throughput.whole_run(),
                eta_seconds=self._throughput.eta_seconds(self._recipe.total_steps),
                busy_shares=[min(1.0, busy[i] / elapsed) for i in sorted(busy)],
                restarts=sum(row.restarts > 0 for row in activity),
                update_share=last.update_seconds / max(last.generation_seconds, 1e-9),
                update_skipped=self._skipped,
            )
        )

    def _write_layout(self, recorder: Recorder, pool: WorkerPool) -> None:
        try:
            write_timeline(self._folder.timeline_json, pool.timeline())
            write_processes(self._folder.processes_csv, pool.activity())
            self._write_card(recorder.chained)
        except OSError as error:
            raise recorder.failed(error) from error

    def _write_card(self, chained: str) -> None:
        document = self._folder.document
        write_card(
            self._folder,
            RunCard(
                promise=document["promise"],
                method=self._recipe.method,
                env_id=self._recipe.env_id,
                seed=self._recipe.seed,
                config=document["config"],
                verify_command=f"drumline verify {self._folder.path}",
                layout=document["layout"],
                versions=document["versions"],
                machine=document["machine"],
                metrics=dict(self._last.metrics) if self._last is not None else {},
                best_evaluation=self._best,
                fingerprint=chained,
            ),
        )


def learned(checkpoint: Checkpoint) -> State:
    """Return the strategy's part of a checkpoint: without the run's own counters."""
    counters = checkpoint.state.counters
    rest = {name: value for name, value in counters.items() if not name.startswith("run_")}
    return State(checkpoint.state.tensors, rest)


def run_document(config: Any, layout: Layout, promise: str) -> dict[str, Any]:
    """Return what config.json holds besides what the run folder itself adds."""
    names = ("numpy", "gymnasium", "mujoco", "torch", "envpool")
    return {
        "config": dataclasses.asdict(config),
        "layout": dataclasses.asdict(layout),
        "promise": promise,
        "versions": {"python": platform.python_version(), **{n: _version(n) for n in names}},
        "machine": {"system": sys.platform, "processor": _processor()},
    }


def _version(name: str) -> str:
    try:
        return package_version(name)
    except ModuleNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


__all__ = ["PROMISE", "PopulationRecipe", "PopulationRun", "Stopped", "learned", "run_document"]
