"""Tasks of a node pool on their way: queued, sent to hosts, late, and issued again."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from drumline.errors import TaskKilledWorkers
from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.gathering import waits_among
from drumline.runtime.cluster.host_deaths import HostDeaths
from drumline.runtime.cluster.host_loads import HostLoads, send_to_idle
from drumline.runtime.cluster.host_supply import HostSupply
from drumline.runtime.cluster.node_messages import Submit, WakeAt
from drumline.runtime.cluster.open_tasks import OpenTasks
from drumline.runtime.cluster.stragglers import Stragglers
from drumline.runtime.leases import TaskQueue
from drumline.runtime.portable import quickly

_LATE_SECONDS = 0.25
"""Time between two looks for late tasks."""
_LATE_LINE_SECONDS = 30.0
"""Time between two lines about late tasks."""


class IssuedTasks:
    """Every task from its submission to its first result, and which host gets it."""

    def __init__(
        self,
        hosts: Sequence[DrivenHost],
        supply: HostSupply,
        *,
        one_task_leases: bool,
        log: Callable[[str], None],
    ):
        """`hosts` changes as they come and go."""
        self.open = OpenTasks()
        self.deaths = HostDeaths()
        self.stragglers = Stragglers()
        self._queue = TaskQueue()
        self._hosts = hosts
        self._supply = supply
        self._log = log
        self._loads = HostLoads(self._queue, self.deaths, one_task_leases=one_task_leases)
        self._last_late = self._last_told_late = -np.inf

    def push(self, tasks: Sequence[Any]) -> ValueError | None:
        """Queue tasks; those that cannot be sent are left out, and the first refusal returned."""
        refusal: ValueError | None = None
        travelling: list[Any] = []
        pickles: list[bytes] = []
        for task in tasks:
            try:
                pickles.append(quickly(task))
                travelling.append(task)
            except Exception as error:  # noqa: BLE001 - a task's class may run any code
                refusal = refusal or ValueError(f"{task!r} cannot be sent to a worker: {error}")
        serials = range(self._queue.next_serial, self._queue.next_serial + len(pickles))
        self._queue.push(travelling)
        self.open.add(serials, travelling, pickles)
        return refusal

    def dispatch(self) -> None:
        """Send hosts the tasks that they have room for, and late tasks to idle ones."""
        if self._queue:
            workers = sum(host.size for host in self._hosts)
            needy = sorted(self._hosts, key=lambda host: len(host.held) / host.size)
            gather = waits_among(len(self._hosts)).gather
            room, starting = self._loads.room, not all(host.speaks for host in self._hosts)
            rooms = ((host, room(host, workers, gather, starting=starting)) for host in needy)
            taken = [(host, self._queue.take(room).serials) for host, room in rooms if room > 0]
            for host, serials in taken:
                self._send(host, serials)
        if self.open.tasks and not self._queue:
            self._double_late_tasks()

    def settle(self, host: DrivenHost, serials: Sequence[int]) -> list[Any]:
        """Take back tasks that have a result; None for a double, whose first one counted."""
        if serials:
            self.deaths.finished(host.node.id)
        held, opened, below = host.held, self.open.tasks, self.open.withdrawn_below
        tasks = [held.pop(serial, None) for serial in serials]
        pairs = zip(serials, tasks, strict=True)
        tasks = [t if k in opened or k < below else None for k, t in pairs]
        first = [k for k, t in zip(serials, tasks, strict=True) if t is not None]
        self.stragglers.answered(first, host.first, time.perf_counter())
        self.open.close_all(first)
        if self.deaths.any_suspects:
            for serial in first:
                self.deaths.forget(serial)
        return tasks

    def close(self, serial: int) -> Any:
        """Forget an open task and return it; None if it is not open."""
        self.deaths.forget(serial)
        self.stragglers.forget(serial)
        return self.open.close(serial)

    def withdraw(self) -> int:
        """Forget every task submitted so far; returns the serial that all of them are below."""
        self.open.withdraw(self._queue.next_serial)
        self._queue.clear()
        self.deaths.clear()
        self.stragglers.clear()
        return self.open.withdrawn_below

    def issue_elsewhere(self, host: DrivenHost) -> int:
        """Queue a silent host's tasks, which it keeps; returns their number."""
        again = [(k, task) for k, task in host.held.items() if k in self.open.tasks]
        self._queue.push_front(again)
        return len(again)

    def take_back(self, host: DrivenHost) -> int:
        """Queue the tasks that no other host that speaks holds; returns their number."""
        others = [other for other in self._hosts if other is not host and not other.silent]
        elsewhere = {serial for other in others for serial in other.held}
        known = elsewhere | {serial for serial, _ in self._queue}
        again = [(k, t) for k, t in host.held.items() if k in self.open.tasks and k not in known]
        self._queue.push_front(again)
        host.held.clear()
        return len(again)

    def speaks(self, host: DrivenHost) -> list[TaskKilledWorkers]:
        """Note that a new host speaks; returns the failures of tasks that ended those before it."""
        failures: list[TaskKilledWorkers] = []
        for serial, causes in self.deaths.node_lives(host.node.id, self.open.tasks.keys()):
            queued = [(k, task) for k, task in self._queue if k != serial]
            self._queue.clear()
            self._queue.push_front(queued)
            failures.append(TaskKilledWorkers(self.close(serial), causes))
        return failures

    def tell_late(self) -> None:
        """Log the number of late tasks, if it has grown."""
        if line := self.stragglers.news():
            self._log(line)

    def _double_late_tasks(self) -> None:
        """Send late tasks to idle workers of other hosts; the first result counts."""
        now = time.perf_counter()
        due = now - self._last_late >= _LATE_SECONDS
        if len(self._hosts) < 2 or not due or self.deaths.any_suspects:
            return
        self._last_late = now
        late = self.stragglers.late(now)
        send_to_idle(late, self._hosts, lambda host, k: self._send(host, [k], again=True))
        if now - self._last_told_late > _LATE_LINE_SECONDS:
            self._last_told_late = now
            self.tell_late()

    def _send(self, host: DrivenHost, serials: Iterable[int], *, again: bool = False) -> None:
        # The result of a double may be here by now, or its host speaks again.
        opened, held = self.open.tasks, host.held
        serials = [k for k in serials if k in opened and k not in held]
        if not serials:
            return
        commands, data = self._supply.for_tasks(host)
        pickles = self.open.pickles(serials)
        waits = waits_among(len(self._hosts))
        commands.append(Submit(tuple(serials), pickles, more=bool(self._queue), waits=waits))
        marks = self.open.marks
        commands += [WakeAt(k, marks[k]) for k in serials if k in marks] if marks else []
        host.tell(commands, data)
        self._supply.count(host, tasks=sum(map(len, pickles)))
        tasks = [opened[k] for k in serials]
        held.update(zip(serials, tasks, strict=True))
        if again:
            for serial in serials:
                self.stragglers.sent_twice(serial, host.first)
        else:
            warm = host.pace.seconds_per_task is not None
            training = [getattr(task, "training", None) for task in tasks]
            kinds: list[Any] = list(zip(map(type, tasks), training, strict=True))
            self.stragglers.sent(serials, kinds, time.perf_counter(), counts=warm)
