"""NodeHost: the worker processes of one node, served by a thread that obeys the driver's commands.

    told → tasks queued in a process pool → finished → heard

The host never unpickles a task or a result. Its process pool replaces dead and hung workers, so
only the loss of the whole host concerns the driver. It knows nothing of the cluster's software: an
actor, or a test, calls `tell` and `hear` from other threads.
"""

import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.protocols import Completed, Probe, Worker, WorkerContext
from drumline.runtime.board import NEVER
from drumline.runtime.failures import packed
from drumline.runtime.kept_results import kept
from drumline.runtime.leases import Pace
from drumline.runtime.messages import Failure
from drumline.runtime.newly_done import NewlyDone
from drumline.runtime.node_checks import other_bits, other_packages
from drumline.runtime.node_messages import (
    Advance,
    Close,
    Command,
    Copy,
    Drop,
    Heard,
    HostSpec,
    Parcel,
    Publish,
    Seed,
    Submit,
    WakeAt,
    Withdraw,
    Write,
)
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.replicas import Replica, digest_of
from drumline.runtime.shared_arrays import SharedArrays
from drumline.types import ProcessActivity, Span

_IDLE_SECONDS = 0.25
_MESSAGE_RESULTS, _MESSAGE_BYTES = 512, 1 << 20
"""Finished tasks, and bytes of their results, with which a message waits for no other."""
_GATHER_SECONDS = 0.25
"""Longest time for which finished tasks wait for others, so that one message has all."""
_SCARCE_SECONDS = 0.01
"""Longest time for which they wait once a worker may soon be idle."""
_RESERVE_SECONDS = 0.02
"""Work in reserve for each worker, below which a worker may soon be idle."""
_ACTIVITY_SECONDS = 0.25
"""Time between two messages with the rows of processes."""
_SMALLER = "noise: --noise-table-size, or --noise counter without a table; replay: --replay-size"
_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class Unpacking:
    """Worker factory around another one: tasks arrive pickled, results leave pickled."""

    factory: bytes

    def __call__(self, context: WorkerContext) -> Worker:
        """Build the worker inside its process."""
        worker: Worker = pickle.loads(self.factory)(context)
        return lambda parcel: pickle.dumps(worker(pickle.loads(parcel.task)), protocol=5)


class NodeHost:
    """Worker processes of one node."""

    def __init__(self, spec: HostSpec):
        self._spec = spec
        self._orders: deque[tuple[Sequence[Command], Sequence[Any]]] = deque()
        self._early: dict[int, tuple[Sequence[Command], Sequence[Any]]] = {}
        self._next_order = 0
        self._told = -1
        self._news = threading.Condition()
        self._fresh = False
        """Whether there is news that the driver waits for."""
        self._urgent = False
        """Whether that news must not wait for results of other workers."""
        self._more = True
        """Whether the driver had other tasks when it sent the latest ones."""
        self._scarce = True
        """Whether workers may soon be idle though the driver has tasks."""
        self._pace = Pace()
        self._told_activity = -1.0
        self._awake = threading.Event()
        self._done = NewlyDone()
        self._kept: dict[int, bytes] = {}
        """Large results by serial, from which the driver may have rows copied."""
        self._condemned: list[tuple[int, tuple[str, ...]]] = []
        self._lines: list[str] = []
        self._spans: list[Span] = []
        self._activity: list[ProcessActivity] = []
        self._progress: list[tuple[int, int]] = []
        self._ending: dict[str, Any] = {}
        """Last words: `unbuilt`, `refused`, `hopeless` or `closed`."""
        self._last = Heard(-1, -1, 0.0)
        self._parcels: dict[int, Parcel] = {}
        self._marks: dict[int, int] = {}
        self._withdrawn_below = self._settled_below = 0
        self._pool: ProcessPool | None = None
        self._shared: SharedArrays | None = None
        self._replica: Replica | None = None
        self._digests: list[tuple[int, bytes]] = []
        self._probe: Probe = _no_probe
        self._thread = threading.Thread(target=self._run, name="drumline-host", daemon=True)
        self._thread.start()

    def tell(self, number: int, commands: Sequence[Command], *data: Any) -> None:
        """Take commands, in any order or twice; they are carried out by number, once."""
        with self._news:
            if number >= self._next_order:
                self._early[number] = (commands, data)
            while self._next_order in self._early:
                self._orders.append(self._early.pop(self._next_order))
                self._next_order += 1
        self._wake()

    def hear(self, seen: int, seconds: float) -> Heard:
        """Return the news after number `seen`, waiting at most `seconds` for some.

        News whose transport failed is returned again. Results wait a moment for each other.
        """
        with self._news:
            if self._last.number > seen:
                return self._last
            if self._news.wait_for(lambda: self._fresh, seconds):
                self._gather()
            self._fresh = self._urgent = False
            now = time.perf_counter()
            telling = bool(self._ending) or now - self._told_activity > _ACTIVITY_SECONDS
            if telling or not self._parcels:
                self._told_activity, activity = now, self._activity
            else:
                activity = None
            self._last = Heard(
                number=seen + 1,
                told=self._told,
                clock=now,
                done=self._done.columns(),
                condemned=self._condemned,
                lines=self._lines,
                spans=self._spans,
                activity=activity,
                progress=self._progress,
                withdrawn_below=self._settled_below,
                replicas=self._digests,
                **self._ending,
            )
            if self._shared is not None and self._replica is None:
                self._kept.update(kept(self._last.done.serials, self._last.done.results))
            self._done = NewlyDone()
            self._condemned, self._lines, self._spans = [], [], []
            self._digests = []
        self._probe("host-heard")
        return self._last

    def _gather(self) -> None:
        """Let finished tasks wait for others, less long once workers may soon be idle."""
        deadline = time.perf_counter() + _GATHER_SECONDS
        while not self._full and (seconds := deadline - time.perf_counter()) > 0:
            if not self._scarce:
                self._news.wait_for(lambda: self._full or self._scarce, seconds)
            elif not self._news.wait_for(
                lambda: self._full or not self._scarce, min(seconds, _SCARCE_SECONDS)
            ):
                return

    @property
    def _full(self) -> bool:
        """Whether the next message waits for no other result."""
        done = self._done
        return self._urgent or len(done.serials) >= _MESSAGE_RESULTS or done.bytes >= _MESSAGE_BYTES

    def _wake(self) -> None:
        self._awake.set()
        pool = self._pool
        if pool is not None:
            pool.wake()

    def _run(self) -> None:
        """Serve until closed; the processes live as long as this thread."""
        words: dict[str, Any]
        try:
            words = self._serve()
        except WorkersLost as error:
            words = {"hopeless": str(error)}
        except Exception as error:  # noqa: BLE001 - the driver must hear of it
            words = {"unbuilt": packed(error)}
        with self._news:
            self._ending = words
            if self._pool is not None:
                self._activity = self._pool.activity()
            self._tell_driver(urgent=True)

    def _serve(self) -> dict[str, Any]:
        spec = self._spec
        if other := other_packages(spec):
            return {"refused": other}
        sys.path += [path for path in spec.search_path if path not in sys.path]
        try:
            if spec.probe_factory is not None:
                self._probe = _loads(spec.probe_factory)()
            self._probe("host-started")
            _loads(spec.factory)
        except ImportError as error:
            return {"refused": f"{error}: install it there, in the version of the driver"}
        try:
            if other := other_bits(spec):
                return {"refused": other}
            if spec.shared is not None:
                self._shared = SharedArrays.create(spec.shared)
            if spec.replica is not None:
                arrays = {} if self._shared is None else self._shared.arrays
                self._replica = _loads(spec.replica)(arrays, spec.size)
            pool = self._made_pool()
        except MemoryError as error:
            return {"refused": f"{error} ({_SMALLER})"}
        self._pool = pool
        try:
            while not self._carry_out(pool):
                self._advance(pool)
        except WorkerError as error:  # only the building of a worker ends up here
            return {"unbuilt": _again(error)}
        finally:
            pool.close()
            if self._shared is not None:
                self._shared.close()
        return {"closed": True}

    def _made_pool(self) -> ProcessPool:
        spec = self._spec
        probe = None if spec.probe_factory is None else pickle.loads(spec.probe_factory)
        return ProcessPool(
            Unpacking(spec.factory),
            size=spec.size,
            published=spec.published,
            versions=spec.versions,
            shared=self._shared,
            hang_seconds=spec.hang_seconds,
            creation_seconds=spec.creation_seconds,
            probe_factory=probe,
            role=spec.role,
            one_task_leases=spec.one_task_leases,
            log=self._lines_in,
        )

    def _lines_in(self, line: str) -> None:
        with self._news:
            self._lines.append(line)

    def _carry_out(self, pool: ProcessPool) -> bool:
        """Carry out the commands that have arrived; return whether the host closes."""
        while self._orders:
            commands, data = self._orders.popleft()
            values = iter(data)
            self._probe("host-told")
            for command in commands:
                if isinstance(command, Close):
                    return True
                self._obey(pool, command, values)
            self._told += 1
        return False

    def _obey(self, pool: ProcessPool, command: Command, values: Any) -> None:
        if isinstance(command, Submit):
            parcels = list(map(Parcel, command.serials, command.tasks))
            self._parcels.update(zip(command.serials, parcels, strict=True))
            self._more = command.more
            with self._news:
                self._judge_reserve()
                self._news.notify_all()
            pool.submit(parcels)
            self._probe("host-submitted")
        elif isinstance(command, Publish):
            pool.retain(command.kept)
            pool.publish(command.version, next(values))
        elif isinstance(command, Seed):
            self._own_replica().load(next(values))
            self._probe("host-seeded")
        elif isinstance(command, Advance):
            self._advance_replica(pool, command.version, next(values))
        elif isinstance(command, Write):
            assert self._shared is not None, "only a pool with shared arrays writes into them"
            rows = next(values)
            self._shared.arrays[command.name][command.first : command.first + len(rows)] = rows
        elif isinstance(command, Copy):
            self._copy(command)
        elif isinstance(command, Drop):
            for serial in command.serials:
                self._kept.pop(serial, None)
        elif isinstance(command, Withdraw):
            self._withdrawn_below = command.below
            self._parcels = {k: p for k, p in self._parcels.items() if k >= command.below}
            pool.withdraw()
        elif isinstance(command, WakeAt) and command.serial in self._parcels:
            self._marks[command.serial] = command.amount
            pool.wake_at(self._parcels[command.serial], command.amount)

    def _copy(self, command: Copy) -> None:
        assert self._shared is not None, "only a pool with shared arrays copies rows into them"
        rows = self._shared.arrays[command.name][command.first : command.last]
        made = np.frombuffer(
            self._kept[command.serial], rows.dtype, count=rows.size, offset=command.offset
        )
        rows[...] = made.reshape(rows.shape)

    def _advance_replica(self, pool: ProcessPool, version: int, records: Sequence[bytes]) -> None:
        """Make updates while the workers are idle; results of the version follow its digest."""
        replica = self._own_replica()
        for record in records:
            replica.apply(record)
        arrays = replica.published()
        pool.publish(version, arrays)
        digest = digest_of(arrays)
        with self._news:
            self._digests.append((version, digest))
        self._probe("host-advanced")

    def _own_replica(self) -> Replica:
        assert self._replica is not None, "only a pool with replicas sends them updates"
        return self._replica

    def _advance(self, pool: ProcessPool) -> None:
        """Wait for finished tasks, for a mark or for a command, and report."""
        finished: list[Completed] = []
        failed: tuple[int, Failure] | None = None
        condemned: list[tuple[int, tuple[str, ...]]] = []
        try:
            if not self._parcels and not self._withdrawing() and not self._orders:
                self._awake.wait(_IDLE_SECONDS)
            self._awake.clear()
            finished = pool.completed(_WAIT_SECONDS)
        except TaskKilledWorkers as error:
            condemned = [(error.task.serial, error.causes)]
        except WorkerError as error:
            if not isinstance(error.task, Parcel):
                raise
            failed = error.task.serial, _again(error)
        if finished or failed:
            self._probe("host-finished")
        serials: list[int] = [done.task.serial for done in finished]
        ended = [*serials, *(serial for serial, _ in condemned), *([failed[0]] if failed else [])]
        for serial in ended:
            self._parcels.pop(serial, None)
            self._marks.pop(serial, None)
        settled = self._withdrawing() and not any(
            parcel.serial < self._withdrawn_below for _, parcel in pool.in_flight()
        )
        progress = [(parcel.serial, amount) for parcel, amount in pool.progressed()]
        with self._news:
            self._done.add(serials, finished, failed)
            self._condemned += condemned
            self._progress = progress
            self._activity = pool.activity()
            spans = pool.take_spans()
            for span in spans:
                if span.tasks:
                    self._pace.observe(span.tasks, span.end - span.start)
            self._spans += spans
            if settled:
                self._settled_below = self._withdrawn_below
            urgent = bool(condemned or settled or self._lines or self._mark_reached(progress))
            if urgent or finished or failed:
                # The last result of a host, or one for a virtual clock, holds up the driver.
                alone = self._spec.one_task_leases or not self._parcels
                self._judge_reserve()
                self._tell_driver(urgent=urgent or alone)

    def _judge_reserve(self) -> None:
        waiting = len(self._parcels) / self._spec.size - 1
        reserve = waiting * (self._pace.seconds_per_task or 0.0)
        self._scarce = self._more and reserve < _RESERVE_SECONDS

    def _withdrawing(self) -> bool:
        return self._settled_below < self._withdrawn_below

    def _tell_driver(self, *, urgent: bool) -> None:
        self._fresh, self._urgent = True, self._urgent or urgent
        self._news.notify_all()

    def _mark_reached(self, progress: list[tuple[int, int]]) -> bool:
        marks = self._marks
        reached = [serial for serial, amount in progress if amount >= marks.get(serial, NEVER)]
        for serial in reached:
            del marks[serial]
        return bool(reached)


def _again(error: WorkerError) -> Failure:
    """Return the failure that a worker's process had sent."""
    exception: bytes | None = None
    with suppress(Exception):  # an exception may hold anything; its text is enough
        exception = pickle.dumps(error.cause, protocol=5) if error.cause is not None else None
    return Failure(error.error, error.traceback, exception)


_loads = pickle.loads


def _no_probe(point: str) -> None:
    """Do nothing; tests give another probe."""
