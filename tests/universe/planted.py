"""Bugs that are planted to see whether universes find them: each breaks one mechanism."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from drumline.api import opened_runs
from drumline.envs.journal import Journal
from drumline.runs import checkpoint, rewind
from drumline.runs.append_file import AppendFile
from drumline.runtime.child_process import Stillness
from drumline.runtime.crews.exchange import SharedExchange
from drumline.runtime.deaths import Deaths
from drumline.runtime.process_pool import ProcessPool
from drumline.runtime.published import PublishedSlots
from drumline.schedules import event_order, generational
from drumline.workers.lane_group import LaneGroup
from drumline.workers.versions import VersionedInference


class Bug(NamedTuple):
    """A bug, and the method whose universes should find it."""

    method: str
    planted: Callable[[], AbstractContextManager[None]]
    mode: str | None = None
    order: str | None = None


def replaced(place: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a context in which an attribute is what `make` makes of it."""

    @contextmanager
    def context() -> Iterator[None]:
        before = place.__dict__[name]
        setattr(place, name, make(before))
        try:
            yield
        finally:
            setattr(place, name, before)

    return context


def _lost_wake_up(serve: Any) -> Any:
    """An actor answers and does not ring the executors of all but the first environment."""

    def quiet(self: SharedExchange, environments: np.ndarray) -> None:
        self.state[environments] = 2
        self._ring(self._bells.executors, self._executor_of, environments[:1])

    return quiet


def _doubled(judge: Any) -> Any:
    """A dead worker's tasks are issued again twice."""

    def twice(self: Deaths, *arguments: Any) -> Any:
        loss = judge(self, *arguments)
        return loss._replace(again=[*loss.again, *loss.again])

    return twice


def _torn(write: Any) -> Any:
    """A checkpoint gets its name before its files are written."""

    def early(path: Any, data: bytes) -> None:
        if path.parent.name.startswith(".") and path.parent.name.endswith(".partial"):
            final = path.parent.with_name(path.parent.name[1 : -len(".partial")])
            final.mkdir(exist_ok=True)
            write(final / path.name, data)
        write(path, data)

    return early


def _stale(call: Any) -> Any:
    """An actor answers with the version that it used last."""

    def newest(self: VersionedInference, version: int, observations: np.ndarray) -> Any:
        self.__dict__.setdefault("held", version)
        held = self.__dict__["held"]
        self.__dict__["held"] = version
        try:
            return call(self, held, observations)
        except LookupError:
            return call(self, version, observations)

    return newest


def _short(history: Any) -> Any:
    """A replaced executor replays all steps of an environment but the last."""

    def cut(self: Journal, environment: int, steps: int, unfolded: Any) -> Any:
        whole = history(self, environment, steps, unfolded)
        return whole._replace(actions=whole.actions[:-1], ended=whole.ended[:-1])

    return cut


def _by_arrival(members: Any) -> Any:
    """Members are told in the order of their arrival."""

    def arrived(self: Any) -> list[Any]:
        members(self)
        results = list(self._training.values())
        return [
            result._replace(member=place, fitness=result.fitness)
            for place, result in enumerate(results)
        ]

    return arrived


def _forgetful(take: Any) -> Any:
    """Results of a worker that were in its pipe when it died are dropped with their tasks."""

    def bury(self: ProcessPool, worker: Any) -> None:
        if worker.leases:
            lease = worker.leases.popleft()
            worker.leases.appendleft(
                lease._replace(serials=lease.serials[1:], tasks=lease.tasks[1:])
            )
        take(self, worker)

    return bury


def _first_slot(slot_for: Any) -> Any:
    """A new version overwrites the newest one."""

    def early(self: PublishedSlots, version: int) -> int:
        held: Sequence[int] = self._versions.tolist()
        return int(np.argmax(held)) if max(held) >= 1 else slot_for(self, version)

    return early


def _swallowed(flush: Any) -> Any:
    """Rows for which the disk has no room are dropped."""

    def quiet(self: AppendFile) -> None:
        with suppress(OSError):
            flush(self)

    return quiet


def _repeated(flush: Any) -> Any:
    """After a short write, all of the rows are written again."""

    def again(self: AppendFile) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        try:
            while data and self._file.write(data) < len(data):
                pass
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    return again


def _unsynced(sync: Any) -> Any:
    """A checkpoint counts rows that are not on the disk."""

    def flushed(self: AppendFile) -> None:
        self.flush()

    return flushed


def _counted_early(step: Any) -> Any:
    """A step is counted before its row is stored."""

    def early(self: LaneGroup, lanes: np.ndarray, at: Any) -> None:
        self._exchange.finish(self._environments[lanes], self._steps[lanes] + 1)
        step(self, lanes, at)

    return early


def _another_branch(read: Any) -> Any:
    """A resume after a lost driver takes the counters of the checkpoint before, with its rows."""

    def mixed(folder: Any, number: int | None = None) -> Any:
        newest = read(folder, number)
        numbers = checkpoint.checkpoint_numbers(folder)
        if len(numbers) < 2:
            return newest
        return replace(newest, lengths=read(folder, numbers[-2]).lengths)

    return mixed


PLANTED: dict[str, Bug] = {
    "lost wake-up": Bug("hts", replaced(SharedExchange, "serve", _lost_wake_up)),
    "double issue": Bug("aes", replaced(Deaths, "judge", _doubled)),
    "torn checkpoint": Bug("es", replaced(checkpoint, "write_synced", _torn)),
    "stale version": Bug("hts", replaced(VersionedInference, "__call__", _stale)),
    "journal a row short": Bug("hts", replaced(Journal, "history", _short)),
    "told by arrival": Bug("es", replaced(generational._Collector, "members", _by_arrival)),
    "events by arrival": Bug(
        "aes",
        replaced(event_order.VirtualOrder, "next", lambda _: event_order.ArrivalOrder.next),
    ),
    "task lost with its worker": Bug("es", replaced(ProcessPool, "_bury", _forgetful)),
    "version slot reused early": Bug("hts", replaced(PublishedSlots, "_slot_for", _first_slot)),
    "rows behind the checkpoint kept": Bug(
        "es", replaced(rewind, "cut_files", lambda _: lambda folder, lengths: None)
    ),
    "hang never noticed": Bug(
        "aes", replaced(Stillness, "seconds", lambda _: lambda self, mark, elapsed: 0.0)
    ),
    "full disk swallowed": Bug("es", replaced(AppendFile, "flush", _swallowed)),
    "short write repeated": Bug("es", replaced(AppendFile, "flush", _repeated)),
    "rows counted before they are synced": Bug("aes", replaced(AppendFile, "sync", _unsynced)),
    "step counted before its row": Bug("hts", replaced(LaneGroup, "_step", _counted_early)),
    "rows of an older checkpoint": Bug(
        "es", replaced(opened_runs, "read_checkpoint", _another_branch), mode="unbounded"
    ),
}
