"""NodeHost: the worker processes of one node, served by a thread that obeys the driver's commands.

    told → tasks queued in a process pool → finished → heard

The host never unpickles a task or a result. Its process pool replaces dead and hung workers, so
only the loss of the whole host concerns the driver. It knows nothing of the cluster's software: an
actor, or a test, calls `tell` and `hear` from other threads.
"""

import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.protocols import Completed, Worker, WorkerContext
from drumline.runtime.cluster.node_checks import (
    other_bits,
    other_packages,
    set_arithmetic_variables,
)
from drumline.runtime.cluster.node_commands import NodeCommands
from drumline.runtime.cluster.node_messages import Close, Command, Heard, HostSpec, Parcel
from drumline.runtime.cluster.node_news import NodeNews, Report
from drumline.runtime.cluster.node_orders import NodeOrders
from drumline.runtime.failures import packed
from drumline.runtime.messages import Failure
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.shared_arrays import SharedArrays

_IDLE_SECONDS = 0.25
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
        self._parcels: dict[int, Parcel] = {}
        """Tasks that the host holds, by serial."""
        self._orders = NodeOrders()
        self._news = NodeNews(spec, self._parcels)
        self._commands = NodeCommands(self._parcels, self._news)
        self._awake = threading.Event()
        self._settled_below = 0
        self._pool: ProcessPool | None = None
        self._thread = threading.Thread(target=self._run, name="drumline-host", daemon=True)
        self._thread.start()

    def tell(self, number: int, commands: Sequence[Command], *data: Any) -> None:
        """Take commands, in any order or twice; they are carried out by number, once."""
        self._orders.add(number, commands, data)
        self._awake.set()
        pool = self._pool
        if pool is not None:
            pool.wake()

    def hear(self, seen: int, seconds: float) -> Heard:
        """Return the news after number `seen`, waiting at most `seconds` for some.

        News whose transport failed is returned again. Results wait a moment for each other.
        """
        return self._news.hear(seen, seconds)

    def _run(self) -> None:
        """Serve until closed; the processes live as long as this thread."""
        words: dict[str, Any]
        try:
            words = self._serve()
        except WorkersLost as error:
            words = {"hopeless": str(error)}
        except Exception as error:  # noqa: BLE001 - the driver must hear of it
            words = {"unbuilt": packed(error)}
        self._news.end(words, None if self._pool is None else self._pool.activity())

    def _serve(self) -> dict[str, Any]:
        spec = self._spec
        if other := other_packages(spec):
            return {"refused": other}
        sys.path += [path for path in spec.search_path if path not in sys.path]
        set_arithmetic_variables(spec.variables)
        try:
            if spec.probe_factory is not None:
                self._news.probe = _loads(spec.probe_factory)()
            self._news.probe("host-started")
            _loads(spec.factory)
        except ImportError as error:
            return {"refused": f"{error}: install it there, in the version of the driver"}
        commands = self._commands
        try:
            if other := other_bits(spec):
                return {"refused": other}
            if spec.shared is not None:
                commands.shared = SharedArrays.create(spec.shared)
            if spec.replica is not None:
                arrays = {} if commands.shared is None else commands.shared.arrays
                commands.replica = _loads(spec.replica)(arrays, spec.size)
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
            if commands.shared is not None:
                commands.shared.close()
        return {"closed": True}

    def _made_pool(self) -> ProcessPool:
        spec = self._spec
        probe = None if spec.probe_factory is None else pickle.loads(spec.probe_factory)
        return ProcessPool(
            Unpacking(spec.factory),
            size=spec.size,
            published=spec.published,
            versions=spec.versions,
            shared=self._commands.shared,
            hang_seconds=spec.hang_seconds,
            creation_seconds=spec.creation_seconds,
            probe_factory=probe,
            role=spec.role,
            one_task_leases=spec.one_task_leases,
            answer="",  # the workers have the driver's variables, this process may have others
            log=self._news.line,
        )

    def _carry_out(self, pool: ProcessPool) -> bool:
        """Carry out the commands that have arrived; return whether the host closes."""
        while self._orders:
            commands, data = self._orders.take()
            values = iter(data)
            self._news.probe("host-told")
            for command in commands:
                if isinstance(command, Close):
                    return True
                self._commands.obey(pool, command, values)
            self._news.told += 1
        return False

    def _advance(self, pool: ProcessPool) -> None:
        """Wait for finished tasks, for a mark or for a command, and report."""
        finished: list[Completed] = []
        failed: tuple[int, Failure] | None = None
        condemned: list[tuple[int, tuple[str, ...]]] = []
        try:
            if not self._parcels and not self._withdrawing and not self._orders:
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
            self._news.probe("host-finished")
        commands = self._commands
        serials: list[int] = [done.task.serial for done in finished]
        ended = [*serials, *(serial for serial, _ in condemned), *([failed[0]] if failed else [])]
        commands.ended(ended)
        settled = self._withdrawing and not any(
            parcel.serial < commands.withdrawn_below for _, parcel in pool.in_flight()
        )
        if settled:
            self._settled_below = commands.withdrawn_below
        progress = [(parcel.serial, amount) for parcel, amount in pool.progressed()]
        report = Report(
            serials=serials,
            finished=finished,
            failed=failed,
            condemned=condemned,
            spans=pool.take_spans(),
            activity=pool.activity(),
            progress=progress,
            settled_below=self._settled_below,
            urgent=commands.mark_reached(progress) or settled,
        )
        self._news.add(report)

    @property
    def _withdrawing(self) -> bool:
        return self._settled_below < self._commands.withdrawn_below


def _again(error: WorkerError) -> Failure:
    """Return the failure that a worker's process had sent."""
    exception: bytes | None = None
    with suppress(Exception):  # an exception may hold anything; its text is enough
        exception = pickle.dumps(error.cause, protocol=5) if error.cause is not None else None
    return Failure(error.error, error.traceback, exception)


_loads = pickle.loads
