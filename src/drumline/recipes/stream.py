"""One run of a single stream: environment and learner in the driver, evaluations in a pool."""

import dataclasses
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline import seeding
from drumline.algorithms.mirrored import evaluation_tasks
from drumline.buffers.replay import Replay, ReplayShape, ReplayWriter, Transitions, one_episode
from drumline.buffers.replay_archive import DamagedReplay, ReplayArchive
from drumline.display.dashboard import Display
from drumline.envs.make import EnvironmentSpec
from drumline.policies.spec import PolicySpec
from drumline.protocols import Probe, PublishedLayout, WorkerPool
from drumline.recipes.attended_pool import AttendedPool, StopSignals
from drumline.recipes.blame import explain
from drumline.recipes.layout import Layout
from drumline.recipes.ledger import Ledger, RunIdentity, learned
from drumline.recipes.rehearsal import compare, repeating
from drumline.recipes.replay_memory import replay_memory
from drumline.recipes.run_order import one_numpy_thread, run_in_order
from drumline.runs.checkpoint import Checkpoint
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.segments import read_segment
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.schedules.single_stream import Block, SingleStreamPlan, single_stream
from drumline.types import Evaluation, EvaluationRow, ProcessActivity, Span, State
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.transition_stream import Step, TransitionStream

_EVALUATED = "evaluated_update"
_SPANS_KEPT = 10_000


@dataclass(frozen=True)
class StreamRecipe:
    """What a method hands over to be run: everything here follows from its config."""

    method: str
    config: Any
    environment: EnvironmentSpec
    policy: PolicySpec
    shape: ReplayShape
    plan: SingleStreamPlan


class StreamRun:
    """The loop; checkpoints hold the state between two blocks, whenever they are written."""

    def __init__(
        self,
        recipe: StreamRecipe,
        folder: RunFolder,
        layout: Layout,
        display: Display,
        *,
        resumed_from: Checkpoint | None = None,
        probe_factory: Callable[[], Probe] | None = None,
        last_update: int | None = None,
    ):
        """`last_update` ends the run early and changes nothing before."""
        from drumline.recipes.td3_learner import make_learner  # imports torch: not at start-up

        if last_update is not None:
            blocks = min(last_update, recipe.plan.blocks)
            plan = dataclasses.replace(recipe.plan, blocks=blocks)
            recipe = dataclasses.replace(recipe, plan=plan)
        self._recipe = recipe
        self._config = config = recipe.config
        self._layout = layout
        self._display = display
        self._probe_factory = probe_factory
        self._memory = replay_memory(recipe.shape)
        replay = Replay(recipe.shape, self._memory.arrays)
        self._writer = ReplayWriter(replay)
        self._archive = ReplayArchive(self._writer)
        self._learner = make_learner(recipe, replay)
        self._stream = TransitionStream(
            recipe.environment, recipe.policy, config.seed, config.exploration_noise
        )
        self._evaluated = 0
        """The last update whose scheduled evaluation is written down."""
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._busy_seconds = 0.0
        if resumed_from is not None:
            with one_numpy_thread():  # the running episode is stepped again, to the same bits
                self._take_over(resumed_from, folder)
        identity = RunIdentity(
            method=recipe.method,
            env_id=config.env,
            seed=config.seed,
            total_steps=config.total_steps,
            environment=dataclasses.asdict(recipe.environment),
            policy=dataclasses.asdict(recipe.policy),
            layout_words="inline" if layout.pool == "inline" else f"{self._evaluators} evaluators",
        )
        self._ledger = Ledger(identity, folder, layout, display, resumed_from)
        self._segments: list[str] = []
        self._state = self._now()

    @property
    def _evaluators(self) -> int:
        return min(self._layout.worker_count, self._config.evaluate_episodes)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        return run_in_order(
            self._train,
            self._ledger,
            makes=[self._make_pool],
            one_thread=one_numpy_thread,
            checkpoint=self._checkpoint,
            policy=self._published,
            close_ledger=self._close_ledger,
            afterwards=self._stream.close,
            explain=explain,
        )

    def _close_ledger(self, spans: list[Span], activity: list[ProcessActivity]) -> None:
        spans = sorted([*spans, *self._spans], key=lambda span: span.start)
        self._ledger.close(spans, [*activity, self._activity()])

    def _train(self, evaluators: WorkerPool, signals: StopSignals) -> EvaluationRow | None:
        ledger, plan, config = self._ledger, self._recipe.plan, self._config
        pool = AttendedPool(evaluators, signals, self._show)
        self._evaluate_if_due(pool)  # a stop may have come between a block and its evaluation
        blocks = single_stream(
            self._learner,
            self._stream,
            self._remember,
            plan,
            first=ledger.update,
            between=lambda: self._pause(pool, signals),
        )
        for block in blocks:
            self._record(block)
            if block.update == 1 and config.promise:
                self._rehearse()
            self._evaluate_if_due(pool)
            if ledger.checkpoint_due:
                self._checkpoint()
        # The checkpoint comes first: a longer run must not count this evaluation as its own.
        self._checkpoint()
        ledger.finishing = True
        if self._evaluated != ledger.update:
            self._evaluate(pool)
        row = ledger.last_evaluation
        ledger.save_policy("last", row, self._published())
        return row

    def _remember(self, step: Step) -> None:
        observations = np.stack([step.observation, step.next_observation])
        reward = np.array([step.reward], np.float32)
        transition = one_episode(observations, step.action[None], reward, step.kind)
        self._writer.append(transition, self._archive.oldest)

    def _pause(self, pool: WorkerPool, signals: StopSignals) -> None:
        """Let signals in between two steps, and refresh the display."""
        signals.arm()
        signals.disarm()
        self._show(pool)

    def _record(self, block: Block) -> None:
        """Write down a block; its transitions go to disk, and a new state stands."""
        ledger, steps = self._ledger, self._recipe.plan.block
        parts = self._archive.take()
        for name, data in parts:
            ledger.recorder.segment(name, data)
        seconds = block.ended - block.began
        self._spans.append(Span("learner", 0, block.began, block.ended, 1))
        self._busy_seconds += seconds
        metrics = {
            "episode_return_mean": self._stream.recent_return,
            **block.metrics,
            "replay_transitions": min(self._writer.watermark, self._config.replay_size),
            "env_steps_per_second": steps / max(seconds, 1e-9),
            "environment_seconds": block.environment_seconds,
            "update_seconds": seconds,
        }
        published = {
            **self._published(),
            "critics": self._learner.critics.copy(),
            "replay": self._archive.state().tensors["replay_digests"],
        }
        ledger.record(
            block.update,
            metrics,
            published,
            self._stream.take(block.update),
            env_steps=steps,
            update_share=1.0 - block.environment_seconds / max(seconds, 1e-9),
        )
        self._state = self._now()

    def _published(self) -> dict[str, np.ndarray]:
        return {"parameters": self._learner.actor.copy()}

    def _show(self, pool: WorkerPool) -> None:
        self._ledger.show_if_due(lambda: [*pool.activity(), self._activity()])

    def _activity(self) -> ProcessActivity:
        """Return what the driver itself has done."""
        steps = int(self._ledger.counters["env_steps"])
        done, seconds = self._ledger.update, self._busy_seconds
        return ProcessActivity("learner", 0, os.getpid(), done, steps, seconds, 0)

    def _rehearse(self) -> None:
        """Make the first block's steps again, twice, in one other environment."""
        recipe = self._recipe
        first = self._writer.last(recipe.plan.block)
        again = TransitionStream(recipe.environment, recipe.policy, self._config.seed, 0.0)
        start = again.state()
        try:
            with seeding.kept_globals(), repeating(self._config.env):
                for _ in range(2):  # where an environment has run before: a fresh one may be lucky
                    again.load(start)
                    _compare(again, first, self._config.env)
        finally:
            again.close()

    # evaluation

    def _make_pool(self) -> WorkerPool:
        recipe, layout = self._recipe, self._layout
        worker = EvaluatorSpec(recipe.environment, recipe.policy, noise_seed=0)
        published = PublishedLayout.of(self._published())
        if layout.pool == "inline":
            return InlinePool(
                worker, published=published, probe_factory=self._probe_factory, role="evaluator"
            )
        return ProcessPool(
            worker,
            size=self._evaluators,
            published=published,
            hang_seconds=layout.hang_seconds,
            probe_factory=self._probe_factory,
            role="evaluator",
            log=self._display.message,
        )

    def _evaluate_if_due(self, pool: WorkerPool) -> None:
        every, update = self._config.evaluate_every, self._ledger.update
        if every and update and update % every == 0 and self._evaluated != update:
            self._evaluate(pool)
            self._state = self._now()

    def _evaluate(self, pool: WorkerPool) -> None:
        """Evaluate the present version; episodes by index."""
        update, config = self._ledger.update, self._config
        results: dict[int, Evaluation] = {}
        with seeding.kept_globals():  # an inline pool seeds this process
            pool.publish(update, self._published())
            pool.submit(evaluation_tasks(config.seed, update, config.evaluate_episodes))
            while len(results) < config.evaluate_episodes:
                results.update((item.result.member, item.result) for item in pool.completed())
        evaluated = [results[member] for member in sorted(results)]
        self._ledger.record_evaluation(evaluated, self._published())
        self._evaluated = update

    # state

    def _now(self) -> State:
        """Return copies of everything, between two blocks."""
        self._segments = self._archive.segments()
        parts = [self._learner.state(), self._archive.state(), self._stream.state()]
        tensors = {name: array for part in parts for name, array in part.tensors.items()}
        counters = {name: value for part in parts for name, value in part.counters.items()}
        return State(tensors, {**counters, _EVALUATED: self._evaluated})

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._state, self._segments)

    def _take_over(self, checkpoint: Checkpoint, folder: RunFolder) -> None:
        state = learned(checkpoint)
        if _EVALUATED not in state.counters:
            raise ValueError(f"the state has no counter {_EVALUATED!r}")
        self._evaluated = int(state.counters[_EVALUATED])
        try:
            self._archive.load(state, lambda name: read_segment(folder, checkpoint, name))
        except DamagedReplay as error:
            raise RunError(
                f"{folder.path} cannot go on: {error}; go on from an older checkpoint with "
                "--checkpoint, or start the run again with another --out"
            ) from error
        self._learner.load(state)
        self._stream.load(state)


def _compare(again: TransitionStream, first: Transitions, env_id: str) -> None:
    for t in range(len(first.rewards)):
        step = again.apply(first.actions[t])
        compare(first.observations[t], step.observation, "observation", t, env_id)
        compare(first.rewards[t], np.float32(step.reward), "reward", t, env_id)
        compare(first.kinds[t], step.kind, "end", t, env_id)
