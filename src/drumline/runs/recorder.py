"""The recorder: a thread that writes the run folder, so that training waits for no disk."""

import errno
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np

from drumline.runs.checkpoint import Checkpoint, checkpoint_numbers
from drumline.runs.claims import Claim
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.next_commands import by_path
from drumline.runs.own_files import is_there, refuse_links, remove_asides
from drumline.runs.policy_files import write_policy
from drumline.runs.rewind import cut_files, rewind, sync_names
from drumline.runs.run_files import RunFiles
from drumline.types import EvaluationRow, NodeTraffic, State, UpdateRecord

FLUSH_SECONDS = 0.5
"""Longest time in seconds that a row waits in memory while more rows keep coming."""

BACKLOG = 256
"""Records in the queue from which on the caller waits: a slow disk must not fill the memory."""


class RecordingFailed(RunError):
    """The run folder could not be written; the cause is the disk, not the user's input."""


class Recorder:
    """Records in the order of the calls; an error on the thread is raised by the next call.

    The recorder owns the arrays and states given to it: the caller must not change them afterwards.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        tensorboard: bool,
        resumed_from: Checkpoint | None = None,
        probe: Callable[[str], None] = lambda point: None,
        checkpointed: Callable[[int], None] = lambda update: None,
    ):
        """`checkpointed` is called on the recorder's thread after each checkpoint."""
        self._folder = folder
        self._claim = Claim(folder)
        try:
            refuse_links(folder.path, writing=True)
            remove_asides(folder.path)
            _start_from(folder, resumed_from)
            folder.claimed()
            self._files = RunFiles(
                folder,
                tensorboard=tensorboard,
                resumed_from=resumed_from,
                probe=probe,
                checkpointed=checkpointed,
            )
        except BaseException:
            self._claim.close()
            raise
        self._queue: SimpleQueue[Callable[[], None] | threading.Event | None] = SimpleQueue()
        self._waiting: deque[int] = deque()
        self._room = threading.Semaphore(BACKLOG)
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def update(self, record: UpdateRecord) -> None:
        """Write one update."""
        self._put(lambda: self._files.update(record))

    def evaluation(self, row: EvaluationRow) -> None:
        """Write one scheduled evaluation."""
        self._put(lambda: self._files.evaluation(row))

    def nodes(self, rows: Sequence[NodeTraffic]) -> None:
        """Write the bytes that an update cost each node."""
        self._put(lambda: self._files.nodes(rows))

    def event(self, line: bytes) -> None:
        """Append a line to events.jsonl."""
        self._put(lambda: self._files.event(line))

    def segment(self, name: str, data: bytes) -> None:
        """Append bytes to a segment of the replay or of the scalar log."""
        self._put(lambda: self._files.segment(name, data))

    def checkpoint(
        self, update: int, state: State, extra: dict[str, Any], segments: Collection[str] = ()
    ) -> None:
        """Write a checkpoint that counts exactly the rows of the calls so far.

        `segments` are those that the checkpoint counts on.
        """

        def write() -> None:
            self._files.checkpoint(update, state, extra, segments)
            self._waiting.popleft()

        self._waiting.append(update)
        self._put(write)

    def policy(self, name: str, tensors: dict[str, np.ndarray], document: dict[str, Any]) -> None:
        """Replace a policy; `name` is `best` or `last`."""
        self._put(lambda: write_policy(self._folder, name, tensors, document))

    def flush(self) -> None:
        """Wait until every call so far is in its files."""
        reached = threading.Event()
        self._put(self._files.flush)
        self._room.acquire()
        self._queue.put(reached)
        reached.wait()
        self._raise_error()

    def close(self) -> None:
        """Write the waiting records, end the thread and raise its error; may be called twice."""
        if not self._closed:
            self._queue.put(None)  # the thread reads only the first end marker
            self._thread.join()
            self._closed = True
            self._files.close()
            self._claim.close()
        self._raise_error()

    @property
    def last_checkpoint(self) -> int | None:
        """Update of the newest checkpoint on the disk; None before the first."""
        return self._files.last_checkpoint

    @property
    def waiting_checkpoints(self) -> tuple[int, ...]:
        """Updates of the checkpoints that are not on the disk yet."""
        return tuple(self._waiting)

    @property
    def chained(self) -> str:
        """Head of the hash chain; complete after `flush` or `close`."""
        return self._files.chained

    def _put(self, job: Callable[[], None]) -> None:
        if self._closed:
            raise RuntimeError("the recorder is closed")
        self._raise_error()
        self._room.acquire()
        self._queue.put(job)

    def _run(self) -> None:
        # After an error, records are taken and dropped, so that no caller waits for ever.
        flushed_at = perf_counter()
        while True:
            try:
                job = self._queue.get_nowait()
                due = perf_counter() - flushed_at > FLUSH_SECONDS
            except Empty:
                self._attempt(self._files.flush)
                flushed_at = perf_counter()
                job, due = self._queue.get(), False
            if job is None:
                self._attempt(self._files.flush)
                return
            if isinstance(job, threading.Event):
                job.set()
            else:
                self._attempt(job)
            self._room.release()
            if due:
                self._attempt(self._files.flush)
                flushed_at = perf_counter()

    def _attempt(self, job: Callable[[], None]) -> None:
        if self._error is not None:
            return
        try:
            self._claim.refuse_moved()  # files are opened by their path when they are needed
            job()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self.failed(self._error) from self._error

    def failed(self, error: BaseException) -> RecordingFailed:
        """Return the error for the caller: the file, and the command to go on with."""
        last = self._files.last_checkpoint
        resume = by_path(self._folder, "resume")
        if last is not None:
            way_out = f"the last good checkpoint is {last}: go on with {resume}"
        elif is_there(self._folder.metrics_csv):
            way_out = "there is no checkpoint yet: start the run again with another --out"
        else:
            way_out = f"nothing is trained yet: begin with {resume}"
        if not isinstance(error, OSError):
            return RecordingFailed(f"the run could not be written down ({error}); {way_out}")
        file = error.filename or self._folder.path
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return RecordingFailed(
                f"the disk is full: cannot write {file}; {way_out} after making room"
            )
        return RecordingFailed(f"cannot write {file} ({error.strerror}); {way_out}")


def _start_from(folder: RunFolder, checkpoint: Checkpoint | None) -> None:
    if checkpoint is not None:
        if checkpoint.beside and tuple(checkpoint_numbers(folder)) != checkpoint.beside:
            raise RunError(
                f"another process has gone on with {folder.shown} since this one read it: resume "
                "it again"
            )
        folder.refuse_changed()
        rewind(folder, checkpoint)
        return
    numbers = checkpoint_numbers(folder)
    if numbers:
        raise ValueError(f"{folder.shown} has checkpoint {numbers[-1]}; resumed_from must be given")
    sync_names(folder, {})
    cut_files(folder, {})  # without a checkpoint, all rows are written again
