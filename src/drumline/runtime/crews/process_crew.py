"""A crew of processes: long-lived roles with shared memory; dead ones are replaced.

The main thread makes the crew and calls `wait` and `look`. The kernel ends children with the thread
that started them, and dead roles are replaced in those two calls.
"""

import contextlib
import logging
import os
import pickle
import select
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from drumline.errors import HANG, RoleKilled, about_hangs
from drumline.protocols import Probe
from drumline.runtime.crews.crew_plan import CrewPlan, Strikes
from drumline.runtime.crews.exchange import Bells, SharedExchange
from drumline.runtime.crews.role_process import RoleProcess
from drumline.runtime.crews.roles import CREATING, LEAVING, WAITING, RoleRows
from drumline.runtime.deaths import STRIKES
from drumline.runtime.doorbell import Doorbell
from drumline.runtime.failures import raised, unpacked
from drumline.runtime.known_answer import numpy_answer
from drumline.runtime.messages import Failure, Ready, RoleSpec
from drumline.runtime.portable import by_reference
from drumline.runtime.published import PublishedSlots
from drumline.runtime.shared_arrays import SharedArrays
from drumline.types import ProcessActivity, Span

_LOGGER = logging.getLogger("drumline")
_LEAVE_SECONDS = 0.3
_LONGEST_TICK = 1.0
_MOST_BEAT_SECONDS = 60.0  # a wait without end has no number, and --hang-seconds may be inf


class ProcessCrew:
    """A `Crew` whose roles are child processes; the constructor waits for none of them."""

    def __init__(
        self,
        plan: CrewPlan,
        *,
        hang_seconds: float = 60.0,
        creation_seconds: float = 300.0,
        probe_factory: Callable[[], Probe] | None = None,
        log: Callable[[str], None] = _LOGGER.warning,
    ):
        self._plan = plan
        self._log = log
        self._hang_seconds = hang_seconds
        self._creation_seconds = max(creation_seconds, hang_seconds)
        self._tick = min(_LONGEST_TICK, hang_seconds / 4, creation_seconds / 4)
        self._factories = {
            role: by_reference(plan.factory(role), f"the {role}'s factory")
            for role in {role for role, _ in plan.roles}
        }
        self._probe_factory = (
            None if probe_factory is None else by_reference(probe_factory, "the probe factory")
        )
        layout = plan.layout()
        self._memory = SharedArrays.create(layout)
        self._layout = layout
        self.arrays = self._memory.arrays
        counts = [len(plan.ownership.executors) - 1, len(plan.ownership.actors) - 1]
        self._bells = Bells(
            Doorbell.create(), *([Doorbell.create() for _ in range(n)] for n in counts)
        )
        self.exchange = SharedExchange(self.arrays, self._bells, plan.ownership)
        self._rows = RoleRows(self.arrays)
        self._slots = PublishedSlots(plan.published, self.arrays)
        self._slots.clear()
        self._strikes = Strikes(self.exchange.finished)
        self._processes: list[RoleProcess] = []
        self._ended: list[ProcessActivity] = []
        self._final: tuple[list[ProcessActivity], list[Span]] | None = None
        self._last_watch = time.perf_counter()
        self._poll = select.poll()
        self._poll.register(self._bells.driver.read_fd, select.POLLIN)
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end_all, self._processes, os.getpid())

    def start(self) -> None:
        """Start every role; the arrays that roles read must be published and set up before."""
        for place, (role, index) in enumerate(self._plan.roles):
            self._processes.append(self._begin(role, index, place, restarts=0))

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every role; the latest three are kept."""
        self._slots.publish(version, arrays)

    def published(self, version: int) -> Mapping[str, np.ndarray]:
        """Return the arrays of `version`, read in place."""
        return self._slots.read(version)

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Return True once `until()` holds, or False after `timeout` seconds."""
        deadline = None if timeout is None else time.perf_counter() + timeout
        while not until():
            remaining = self._tick if deadline is None else deadline - time.perf_counter()
            if remaining <= 0:
                return False
            self._take_in(min(remaining, self._tick))
        return True

    def look(self) -> None:
        """Handle deaths without waiting."""
        self._take_in(0.0)

    def restoring(self) -> tuple[int, int]:
        """Return the env steps replayed, and those to replay, of roles that are not yet built."""
        return (0, 0) if self._final is not None else self._rows.restoring(len(self._plan.roles))

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked in this crew; also after `close`."""
        if self._final is not None:
            return self._final[0]
        rows = [*self._ended, *(self._activity(process) for process in self._processes)]
        return sorted(rows, key=lambda row: (row.role, row.index, row.restarts))

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work of every role; also after `close`."""
        if self._final is not None:
            return self._final[1]
        spans = [
            span
            for place, (role, index) in enumerate(self._plan.roles)
            for span in self._rows.spans(role, index, place)
        ]
        return sorted(spans, key=lambda span: span.start)

    def close(self) -> None:
        """End every process and free the memory; continues where an interrupted call stopped.

        In a copy of the driver made by fork it does nothing: the processes belong to the original.
        """
        if self._final is not None or os.getpid() != self._owner:
            return
        self.exchange.stop()
        for process in self._processes:
            process.hang_up()
        deadline = time.perf_counter() + _LEAVE_SECONDS
        for process in self._processes:
            process.end(deadline - time.perf_counter(), partial(self._leaving, process.place))
            process.close()
        self._final = self.activity(), self.timeline()
        self._finalizer.detach()
        for bell in (self._bells.driver, *self._bells.executors, *self._bells.actors):
            bell.close()
        del self.exchange, self._rows, self._slots, self._strikes
        self.arrays = {}
        self._memory.close()

    def _begin(self, role: str, index: int, place: int, restarts: int) -> RoleProcess:
        bells = self._bells
        spec = RoleSpec(
            search_path=list(sys.path),
            role=role,
            index=index,
            place=place,
            layout=self._layout,
            memory_fd=self._memory.fd,
            driver=_pair(bells.driver),
            executors=tuple(map(_pair, bells.executors)),
            actors=tuple(map(_pair, bells.actors)),
            ownership=tuple(self._plan.ownership),
            published=dict(self._plan.published.arrays),
            factory=self._factories[role],
            probe_factory=self._probe_factory,
            numpy_answer=numpy_answer(),
            beat_seconds=min(self._hang_seconds / 4, _MOST_BEAT_SECONDS),
            start=pickle.dumps(self._plan.start_of(role, index), protocol=5),
        )
        fds = [fd for bell in (bells.driver, *bells.executors, *bells.actors) for fd in bell.fds]
        process = RoleProcess(spec, fds, restarts)
        self._poll.register(process.results.fd, select.POLLIN | select.POLLHUP)
        return process

    def _take_in(self, seconds: float) -> None:
        ready = {fd for fd, _ in self._poll.poll(seconds * 1000.0)}
        if self._bells.driver.read_fd in ready:
            self._bells.driver.clear()
        for process in self._processes:
            if process.results.fd in ready:
                self._read(process)
        now = time.perf_counter()
        if now - self._last_watch >= self._tick:
            # Only time that the driver spends here counts, so a long update makes no role hang.
            elapsed, self._last_watch = min(now - self._last_watch, 2 * self._tick), now
            for process in self._processes:
                self._watch(process, elapsed)

    def _read(self, process: RoleProcess) -> None:
        self._hear(process)
        if process.results.ended:
            self._bury(process)

    def _hear(self, process: RoleProcess) -> None:
        for frame in process.results.receive():
            message: Ready | Failure = pickle.loads(frame)
            if isinstance(message, Failure):
                raised(unpacked(f"{process.name}, {self._where(process)}", message))
            process.ready = True

    def _watch(self, process: RoleProcess, elapsed: float) -> None:
        if process.exited():
            if not process.results.ended:
                self._bury(process)
            return
        status = self._rows.status(process.place)
        limits = {CREATING: self._creation_seconds, LEAVING: None}
        limit = limits.get(status.phase, self._hang_seconds)
        # A waiting role looks up every few seconds: a process that was stopped does not. A busy
        # one must make progress.
        beats = status.phase == WAITING and status.beats
        mark = (status.phase, status.progress, status.signs, beats)
        still = process.stillness.seconds(mark, elapsed)
        if limit is not None and still >= limit:
            process.hung = f"{HANG} {limit:g} s"
            process.kill()

    def _bury(self, process: RoleProcess) -> None:
        cause = process.end()
        self._hear(process)  # an exception that it told before its death counts
        owned = self._plan.owned(process.role, process.index)
        where = self._where(process)
        causes = self._strikes.count(process.role, process.index, owned, cause)
        with contextlib.suppress(KeyError):
            self._poll.unregister(process.results.fd)
        process.close()
        self._ended.append(self._activity(process))
        self._processes.remove(process)
        if len(causes) >= STRIKES:
            raise RoleKilled(process.role, process.index, causes, where)
        self._rows.reset(process.place)
        successor = self._begin(process.role, process.index, process.place, process.restarts + 1)
        self._processes.append(successor)
        for bell in self._bells.executors:
            bell.ring()  # an actor may have died between its answer and the bell
        self._log(
            f"{process.name} (pid {process.pid}) ended by {cause}, {where}; "
            f"replaced by pid {successor.pid}{about_hangs([cause])}"
        )

    def _leaving(self, place: int) -> bool:
        return self._rows.status(place).phase in (WAITING, LEAVING)

    def _where(self, process: RoleProcess) -> str:
        return self._plan.place_of(process.role, process.index)

    def _activity(self, process: RoleProcess) -> ProcessActivity:
        status = self._rows.status(process.place)
        return ProcessActivity(
            role=process.role,
            index=process.index,
            pid=process.pid,
            tasks=status.pieces,
            progress=status.progress,
            busy_seconds=status.busy_seconds,
            restarts=process.restarts,
        )


def _pair(bell: Doorbell) -> tuple[int, int]:
    return bell.read_fd, bell.write_fd


def _end_all(processes: list[RoleProcess], owner: int) -> None:
    """End the processes of a crew that was abandoned without `close`."""
    if os.getpid() != owner:
        return
    for process in processes:
        process.kill()
        process.end()
        process.close()
