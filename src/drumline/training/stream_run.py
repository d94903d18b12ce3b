"""Run of a single stream: environment and learner in the driver, evaluations in a pool."""

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline import seeding
from drumline.buffers.replay import Replay, ReplayShape, ReplayWriter, Transitions, one_episode
from drumline.buffers.replay_archive import ReplayArchive
from drumline.envs.environment import EnvironmentSpec
from drumline.functional.numpy_threads import one_numpy_thread
from drumline.policies.spec import PolicySpec
from drumline.protocols import PublishedLayout, WorkerPool
from drumline.schedules.evaluations import is_due
from drumline.schedules.single_stream import Block, SingleStreamPlan, StreamLearner, single_stream
from drumline.training.attended_pool import AttendedPool
from drumline.training.blame import explain
from drumline.training.evaluations import evaluate_now
from drumline.training.ledger import learned
from drumline.training.rehearsal import compare, repeating
from drumline.training.replay_memory import replay_memory, segments_of
from drumline.training.restore_note import RestoreNote
from drumline.training.run_order import run_in_order
from drumline.training.run_request import RunConfig, RunRequest
from drumline.training.stop_signals import StopSignals
from drumline.types import EvaluationRow, ProcessActivity, Span, State
from drumline.workers.evaluator import EvaluatorSpec
from drumline.workers.transition_stream import Step, TransitionStream

_EVALUATED = "evaluated_update"
_SPANS_KEPT = 10_000


@dataclass(frozen=True)
class StreamRecipe:
    """Parts of a single-stream method; they follow from its config."""

    config: RunConfig
    environment: EnvironmentSpec
    policy: PolicySpec
    shape: ReplayShape
    replay_size: int
    """Transitions in the replay window; `shape` may hold fewer where a run never makes as many."""
    plan: SingleStreamPlan
    learner: Callable[[Replay], StreamLearner]
    exploration: float
    """Std of the noise on actions, in units of half the action range, or of the std that the
    network puts out; discrete: ε."""
    critics: Mapping[str, Any] | None = None
    """Description of the critics in policy files; None: they are in none."""

    def opened(self, request: RunRequest) -> "StreamRun":
        """Return the run that trains with these parts."""
        return StreamRun(self, request)


class StreamRun:
    """Loop over blocks; a checkpoint holds the state between two of them."""

    def __init__(self, recipe: StreamRecipe, request: RunRequest):
        if request.last_update is not None:
            blocks = min(request.last_update, recipe.plan.blocks)
            plan = dataclasses.replace(recipe.plan, blocks=blocks)
            recipe = dataclasses.replace(recipe, plan=plan)
        self._recipe = recipe
        self._config = config = recipe.config
        self._request = request
        self._memory = replay_memory(recipe.shape)
        replay = Replay(recipe.shape, self._memory.arrays)
        self._writer = ReplayWriter(replay)
        self._archive = ReplayArchive(self._writer)
        self._learner = recipe.learner(replay)
        self._stream = TransitionStream(
            recipe.environment,
            recipe.policy,
            config.seed,
            recipe.exploration,
            request.whereabouts,
        )
        self._evaluated: int | None = None
        """The last update whose evaluation is recorded; None: no update's."""
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._busy_seconds = 0.0
        self._unended_steps = 0
        if request.resumed_from is not None:
            with one_numpy_thread():  # the running episode is stepped again, to the same bits
                self._take_over(request)
        words = f"{self._evaluators} evaluators"
        self._ledger = request.ledger(
            config, recipe.environment, recipe.policy, words, recipe.critics
        )
        self._segments: list[str] = []
        self._state = self._now()

    @property
    def _evaluators(self) -> int:
        most = self._config.evaluate_episodes
        return min(self._request.layout.worker_count or most, most)

    def run(self) -> EvaluationRow | None:
        """Train to `total_steps`; returns the final evaluation. `Stopped` leaves a checkpoint."""
        return run_in_order(
            self._train,
            self._ledger,
            evaluate_last=self._evaluate_last,
            makes=[self._make_pool],
            one_thread=one_numpy_thread,
            checkpoint=self._checkpoint,
            policy=lambda: self._policy,
            close_ledger=self._close_ledger,
            afterwards=self._stream.close,
            explain=explain,
        )

    def _close_ledger(self, spans: list[Span], activity: list[ProcessActivity]) -> None:
        spans = sorted([*spans, *self._spans], key=lambda span: span.start)
        self._ledger.close(spans, [*activity, self._activity()])

    def _train(self, evaluators: WorkerPool, signals: StopSignals) -> None:
        ledger, plan, config = self._ledger, self._recipe.plan, self._config
        pool = AttendedPool(evaluators, signals, self._show, self._ledger.unended)
        self._evaluate_if_due(pool)  # a stop may have come between a block and its evaluation
        if ledger.ends_here(signals):
            return
        blocks = single_stream(
            self._learner,
            self._stream,
            self._remember,
            plan,
            first=ledger.update,
            between=lambda: self._pause(pool, signals),
        )
        signals.state_whole = True
        self._stream.note()
        for block in blocks:
            signals.state_whole = False
            self._record(block)
            if block.update == 1 and config.promise:
                self._rehearse()
            ends = ledger.ends_here(signals)  # a stop may come within the evaluation
            self._evaluate_if_due(pool)
            signals.state_whole = True  # the copy: an env step may fail outside of a wait
            if ledger.checkpoint_due:
                self._checkpoint()
            if ledger.ends_here(signals) or ends:
                return
            self._stream.note()  # an evaluation or a rehearsal may have come between

    def _evaluate_last(self, evaluators: WorkerPool, signals: StopSignals) -> None:
        if self._evaluated != self._ledger.update:
            self._evaluate(AttendedPool(evaluators, signals, self._show, self._ledger.unended))

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
        """Record a block: write its transitions to disk, and keep the new state."""
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
            "replay_transitions": min(self._writer.watermark, self._recipe.replay_size),
            "env_steps_per_second": steps / max(seconds, 1e-9),
            "environment_seconds": block.environment_seconds,
            "update_seconds": seconds,
        }
        published = {
            **self._published(),
            **self._learner.learned(),
            "replay": self._archive.state().tensors["replay_digests"],
        }
        episodes = self._stream.take(block.update)
        self._note_ends(ended=bool(episodes), env_steps=steps)
        ledger.record(
            block.update,
            metrics,
            published,
            episodes,
            env_steps=steps,
            update_seconds=seconds - block.environment_seconds,
        )
        self._state = self._now()

    def _note_ends(self, *, ended: bool, env_steps: int) -> None:
        if ended:
            self._ledger.unended.ended()
        self._unended_steps = 0 if ended else self._unended_steps + env_steps
        self._ledger.unended.going(self._unended_steps)

    def _published(self) -> dict[str, np.ndarray]:
        return {"parameters": self._learner.actor.copy()}

    def _saved(self) -> dict[str, np.ndarray]:
        """Return the arrays of policy files: with the critics, from which another run may start."""
        if self._recipe.critics is None:
            return self._published()
        return {**self._published(), "critics": self._learner.learned()["critics"]}

    def _show(self, pool: WorkerPool) -> None:
        self._ledger.show_if_due(lambda: [*pool.activity(), self._activity()])

    def _activity(self) -> ProcessActivity:
        """Return the driver's own row."""
        steps = int(self._ledger.counters["env_steps"])
        done, seconds = self._ledger.update, self._busy_seconds
        return ProcessActivity("learner", 0, os.getpid(), done, steps, seconds, 0)

    def _rehearse(self) -> None:
        """Make the first block's steps again, twice, in one other environment."""
        recipe = self._recipe
        first = self._writer.last(recipe.plan.block)
        seed, noted = self._config.seed, self._request.whereabouts
        again = TransitionStream(recipe.environment, recipe.policy, seed, 0.0, noted)
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
        worker = EvaluatorSpec(self._recipe.environment, self._recipe.policy, noise_seed=0)
        published = PublishedLayout.of(self._published())
        return self._request.pool(worker, published, size=self._evaluators, role="evaluator")

    def _evaluate_if_due(self, pool: WorkerPool) -> None:
        update = self._ledger.update
        if is_due(self._config.evaluate_every, update) and self._evaluated != update:
            self._evaluate(pool)
            self._state = self._now()

    def _evaluate(self, pool: WorkerPool) -> None:
        evaluate_now(self._ledger, self._config, pool, self._published(), self._saved())
        self._evaluated = self._ledger.update

    # state

    def _now(self) -> State:
        """Return copies of all state, between two blocks; keep those of the policy beside it."""
        self._segments = self._archive.segments()
        self._policy = self._saved()
        return State.merged(
            self._learner.state(),
            self._archive.state(),
            self._stream.state(),
            State({}, {_EVALUATED: self._evaluated or 0}),
        )

    def _checkpoint(self) -> None:
        self._ledger.checkpoint(self._state, self._segments)

    def _take_over(self, request: RunRequest) -> None:
        assert request.resumed_from is not None, "a run takes over the checkpoint it goes on from"
        state = learned(request.resumed_from)
        self._evaluated = int(state.counter(_EVALUATED)) or None
        with segments_of(request.folder, request.resumed_from) as read:
            self._archive.load(state, read)
        self._learner.load(state)
        self._stream.load(state, RestoreNote(request.display).counted)


def _compare(again: TransitionStream, first: Transitions, env_id: str) -> None:
    for t in range(len(first.rewards)):
        step = again.apply(first.actions[t])
        compare(first.observations[t], step.observation, "observation", t, env_id)
        compare(first.rewards[t], np.float32(step.reward), "reward", t, env_id)
        compare(first.kinds[t], step.kind, "end", t, env_id)
