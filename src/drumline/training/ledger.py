"""The ledger of a run: its counters, records and display, for every schedule.

Counters and learned state change together, between two waits; a checkpoint holds both.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np

from drumline.display.dashboard import Display
from drumline.display.plain import ReaderGone
from drumline.display.state import RunTitle
from drumline.envs.last_info import means
from drumline.errors import CallbackFailed, ImpureEnvironment, StrategyFailed
from drumline.functional.stability import Falls
from drumline.runs.card import RunCard, write_card
from drumline.runs.checkpoint import KEPT, Checkpoint
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import evaluation_rows, last_evaluation
from drumline.runs.next_commands import by_path
from drumline.runs.policy_files import policy_description, put_back_best
from drumline.runs.recorder import Recorder
from drumline.runs.run_error import RunError
from drumline.runs.timeline import write_processes, write_timeline
from drumline.stores.mirror import Mirror
from drumline.tasks import Evaluation
from drumline.training.callbacks import CallbackQueue
from drumline.training.layout import Layout
from drumline.training.method_answers import refuse_names, refuse_values
from drumline.training.run_identity import RunIdentity
from drumline.training.shown_progress import ShownProgress
from drumline.training.stop_signals import StopSignals
from drumline.training.stopped import Stopped
from drumline.training.unended_episodes import UnendedEpisodes
from drumline.types import (
    EpisodeRow,
    EvaluationRow,
    Metrics,
    ProcessActivity,
    Span,
    State,
    UpdateRecord,
)

_PREFIX = "run_"


class Ledger:
    """Counters, rows, checkpoints, policies and the display of one run."""

    def __init__(
        self,
        identity: RunIdentity,
        folder: RunFolder,
        layout: Layout,
        display: Display,
        resumed_from: Checkpoint | None,
        callbacks: CallbackQueue | None = None,
        mirror: Mirror | None = None,
    ):
        self.folder = folder
        self._callbacks = callbacks or CallbackQueue()
        self.fresh = resumed_from is None
        self.finishing = False
        """Whether the last checkpoint is written: later evaluations are not in it."""
        self.update = 0
        self.counters: dict[str, int | float] = {
            "env_steps": 0,
            "episodes": 0,
            "env_steps_evaluation": 0,
            "best_evaluation": -np.inf,
        }
        self.last_evaluation: EvaluationRow | None = None
        self._identity = identity
        self._layout = layout
        self._mirror = mirror
        self._ended_by: BaseException | None = None
        self._signals: StopSignals | None = None
        self.display = display
        self.unended = UnendedEpisodes(identity.env_id, display.message, limited=identity.limited)
        self._wall_before = 0.0
        if resumed_from is not None:
            self._take_over(resumed_from)
        self._began = self._checkpointed = time.perf_counter()
        self.saved_update = 0 if resumed_from is None else resumed_from.update
        """Update of the latest checkpoint."""
        self._shown = ShownProgress(identity)
        self._metrics: Metrics = {}
        self._named: tuple[str, ...] = ()
        """Names of the latest record's metrics, which have been checked."""
        self._resumed_from = resumed_from
        self._recorder: Recorder | None = None

    @property
    def recorder(self) -> Recorder:
        """Return the recorder; there is one between `open` and `close`."""
        assert self._recorder is not None, "the ledger is open while the run goes on"
        return self._recorder

    def open(self) -> None:
        """Start the recorder; a fresh folder's first checkpoint is the caller's to write."""
        mirror = self._mirror
        self._recorder = Recorder(
            self.folder,
            tensorboard=self._layout.tensorboard,
            resumed_from=self._resumed_from,
            checkpointed=(lambda update: None) if mirror is None else mirror.checkpointed,
        )
        if self._resumed_from is not None:
            mean = float(self.counters["best_evaluation"])
            put_back_best(self.folder, self._resumed_from.update, mean)
            self.last_evaluation = last_evaluation(self.folder.evaluations_csv)
            if mirror is not None and mirror.uploaded != self._resumed_from.update:
                # Else a kill before the next checkpoint leaves the store with what was cut off.
                mirror.checkpointed(self._resumed_from.update)

    def start_display(self) -> None:
        """Show the run's names, and start counting speed."""
        run = self._identity
        self.display.start(
            RunTitle(run.method, run.env_id, run.seed, run.layout_words, self.folder.shown)
        )
        self._shown.begin(int(self.counters["env_steps"]))

    def wall_seconds(self) -> float:
        """Return the seconds that this run has taken, those before a resume included."""
        return self._wall_before + time.perf_counter() - self._began

    def record(
        self,
        update: int,
        metrics: Metrics,
        published: Mapping[str, np.ndarray],
        episodes: Sequence[EpisodeRow],
        *,
        env_steps: int,
        update_seconds: float = 0.0,
    ) -> None:
        """Record one update that took `env_steps`; `metrics` go behind the counters.

        Raises `StrategyFailed` for a metric without a proper name or value.
        """
        self._refuse_wrong(update, metrics)
        self.update = update
        self.counters["env_steps"] += env_steps
        self.counters["episodes"] += len(episodes)
        self._shown.updated(metrics, update_seconds)
        self._metrics = {
            "env_steps": self.counters["env_steps"],
            "episodes": self.counters["episodes"],
            "wall_seconds": self.wall_seconds(),
            **metrics,
            "env_steps_evaluation": self.counters["env_steps_evaluation"],
        }
        self.recorder.update(UpdateRecord(update, self._metrics, dict(published), tuple(episodes)))
        self._callbacks.update(update, self._metrics, episodes)

    def _refuse_wrong(self, update: int, metrics: Metrics) -> None:
        """Check an update's metrics; their names only where they differ from those before."""
        names = tuple(metrics)
        if names != self._named:
            refuse_names(metrics)
            self._named = names
        refuse_values(update, metrics)

    @property
    def checkpoint_due(self) -> bool:
        """Whether the time between checkpoints is over."""
        return time.perf_counter() - self._checkpointed >= 60.0 * self._layout.checkpoint_minutes

    def checkpoint(self, state: State, segments: Collection[str] = ()) -> None:
        """Write a checkpoint of the learned state and the counters; it refers to `segments`."""
        counters = {**state.counters, **{_PREFIX + k: v for k, v in self.counters.items()}}
        extra = {"wall_seconds": self.wall_seconds()}
        began = time.perf_counter()
        self.recorder.checkpoint(self.update, State(state.tensors, counters), extra, segments)
        self._checkpointed = time.perf_counter()
        self._shown.waited("checkpoints", self._checkpointed - began)
        self.saved_update = self.update
        self._callbacks.checkpoint(self.update, self.folder.checkpoints / str(self.update))

    def ends_here(self, signals: StopSignals) -> bool:
        """Call the callbacks where all state is whole; return whether one ends the run.

        `CallbackFailed` for one that raises.
        """
        before, signals.state_whole = signals.state_whole, True
        try:
            ends = self._callbacks.call(self._staying_checkpoint())
        except CallbackFailed as error:
            error.add_note(f"the run can go on: {by_path(self.folder, 'resume')}")
            raise
        signals.state_whole = before
        return ends

    def _staying_checkpoint(self) -> int | None:
        """Return the newest checkpoint on the disk, which stays there while callbacks run.

        Those that the recorder has still to write take the place of the oldest ones, or of one of
        the same update.
        """
        waiting = self.recorder.waiting_checkpoints  # read first: the recorder goes on meanwhile
        newest = self.recorder.last_checkpoint
        stays = len(waiting) < KEPT and newest not in waiting
        if stays or not self._callbacks.awaits_checkpoints:
            return newest
        self.recorder.flush()
        return self.recorder.last_checkpoint

    def call_last(self) -> None:
        """Tell the callbacks of the last evaluation and checkpoint, once these are on the disk."""
        if self._callbacks.awaits_checkpoints:
            self.recorder.flush()
        self._callbacks.call(self.recorder.last_checkpoint)

    def evaluating(self, episodes: int) -> Callable[[int], None]:
        """Return a function that takes the number of ended episodes, for the display."""
        return self._shown.evaluating(episodes)

    def record_evaluation(
        self,
        evaluated: Sequence[Evaluation],
        policy: Mapping[str, np.ndarray],
        env_steps: int | None = None,
    ) -> None:
        """Record the evaluation of one version, and its policy if it is the best so far.

        `env_steps` is the count at that version, where it is not the present count.
        """
        self._shown.evaluated()
        if not evaluated:
            return
        returns = tuple(result.episode_return for result in evaluated)
        lengths = tuple(result.length for result in evaluated)
        self.counters["env_steps_evaluation"] += sum(lengths)
        steps = int(self.counters["env_steps"]) if env_steps is None else env_steps
        info = means(result.numbers for result in evaluated)
        row = EvaluationRow(evaluated[0].version, steps, returns, lengths, info)
        self.recorder.evaluation(row)
        self._callbacks.evaluation(row)
        self.last_evaluation = row
        if row.mean > self.counters["best_evaluation"]:
            self.counters["best_evaluation"] = row.mean
            self.save_policy("best", row, policy)

    def save_policy(
        self, name: str, row: EvaluationRow | None, policy: Mapping[str, np.ndarray]
    ) -> None:
        """Replace policy-best or policy-last."""
        run = self._identity
        document = policy_description(
            run.method,
            run.described,
            update=self.update if row is None else row.update,
            evaluation_mean=None if row is None else row.mean,
            env_steps=int(self.counters["env_steps"]) if row is None else row.env_steps,
        )
        self.recorder.policy(name, dict(policy), document)

    def save_stopped(self, error: BaseException, policy: Mapping[str, np.ndarray]) -> None:
        """Save the latest policy of a run that is stopped, to be looked at before a resume."""
        if isinstance(error, (Stopped, ReaderGone, CallbackFailed)):
            self.save_policy("last", None, policy)

    def show_if_due(
        self, activity: Callable[[], Sequence[ProcessActivity]], *, last: bool = False
    ) -> None:
        """Refresh the display, if there is something new and a refresh is due, or the `last`."""
        for news in () if self._mirror is None else self._mirror.news():
            self.display.message(news)
        if not self._metrics or not (last or self.display.due()):
            return
        state = self._shown.state(
            activity(),
            update=self.update,
            counters=self.counters,
            metrics=self._metrics,
            wall_seconds=self.wall_seconds(),
            session_seconds=time.perf_counter() - self._began,
            evaluation=self.last_evaluation,
        )
        self.display.update(state)

    def close(self, timeline: Sequence[Span], activity: Sequence[ProcessActivity]) -> None:
        """Write pending rows, then the timeline, the processes and the card."""
        try:
            self._close_folder(timeline, activity)
        finally:
            self._close_mirror()

    def closes_within(self, signals: StopSignals) -> None:
        """Take note of the signals that may come while the run closes."""
        self._signals = signals

    def ended_by(self, error: BaseException) -> None:
        """Take note of the error that ends the run: a signal leaves little time for uploads."""
        self._ended_by = error

    def say_how_to_go_on(self, error: BaseException) -> None:
        """Add to an error where the run goes on, unless its words say so or it would end again."""
        own = (CallbackFailed, ImpureEnvironment, OSError, RunError, StrategyFailed)
        if self.saved_update and isinstance(error, Exception) and not isinstance(error, own):
            error.add_note(
                f"the run can go on from checkpoint {self.saved_update}, once the cause is mended: "
                f"{by_path(self.folder, 'resume')}"
            )

    def _close_folder(self, timeline: Sequence[Span], activity: Sequence[ProcessActivity]) -> None:
        if self._recorder is None:
            return
        self._recorder.close()
        try:
            write_timeline(self.folder.timeline_json, timeline)
            write_processes(self.folder.processes_csv, activity)
            self._write_card(self._recorder.chained)
        except OSError as error:
            raise self._recorder.failed(error) from error

    def _close_mirror(self) -> None:
        """Upload the rest: after a signal within its grace time, after a second one nothing."""
        if self._mirror is None:
            return
        stop, signals, now = self._ended_by, self._signals, time.monotonic()
        at_once = self._recorder is None or (isinstance(stop, Stopped) and stop.midway)

        def deadline() -> float | None:
            if at_once:
                return now
            asked = stop.asked if isinstance(stop, Stopped) else signals and signals.asked
            return None if asked is None else asked + self._layout.grace_seconds

        sentence = self._mirror.close(deadline)
        with suppress(OSError):  # the reader of the output has gone
            for text in (*self._mirror.news(), sentence):
                if text:
                    self.display.message(text)

    def _take_over(self, checkpoint: Checkpoint) -> None:
        for name in self.counters:
            value = checkpoint.state.counter(_PREFIX + name)
            if name != "best_evaluation" and not (isinstance(value, int) and value >= 0):
                raise ValueError(f"the checkpoint is damaged: {_PREFIX + name} is {value!r}")
            self.counters[name] = value
        self.update = checkpoint.update
        seconds = checkpoint.extra.get("wall_seconds")
        if not isinstance(seconds, (int, float)) or not 0.0 <= seconds < np.inf:
            raise ValueError(f"the checkpoint is damaged: its wall_seconds are {seconds!r}")
        self._wall_before = float(seconds)

    def _write_card(self, chained: str) -> None:
        document = self.folder.document
        best: EvaluationRow | None = None
        falls = Falls()
        for row in evaluation_rows(self.folder.evaluations_csv):
            best = row if best is None or _by_mean(row) > _by_mean(best) else best
            if np.isfinite(row.mean):
                falls.add(row.mean)
        write_card(
            self.folder,
            RunCard(
                promise=self.folder.stated("promise"),
                method=self._identity.method,
                env_id=self._identity.env_id,
                seed=self._identity.seed,
                config=document["config"],
                verify_command=by_path(self.folder, "verify"),
                layout=document.get("layout", {}),
                versions=document.get("versions", {}),
                machine=document.get("machine", {}),
                metrics=self._metrics,
                best_evaluation=best,
                largest_drawdown=falls.largest if falls.count > 1 else None,
                fingerprint=chained,
            ),
        )


def _by_mean(row: EvaluationRow) -> float:
    return row.mean if np.isfinite(row.mean) else -np.inf


def learned(checkpoint: Checkpoint) -> State:
    """Return the learned state of a checkpoint, without the run's own counters."""
    state = checkpoint.state
    counters = {k: v for k, v in state.counters.items() if not k.startswith(_PREFIX)}
    return State(dict(state.tensors), counters)
