"""NodePool: a worker pool over the nodes of a cluster, with one host of worker processes per node.

    submit ─ tasks ─▶ hosts, each with its own process pool ─ results, by serial ─▶ completed

The driver holds every task until its first result is here, so the loss of a node costs time only.
A task that was issued twice has two equal results; the second is dropped. A task that takes longer
than 99 of 100 of its kind is issued on a second host, if one has idle workers.
"""

import logging
import pickle
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.protocols import Completed, Probe, PublishedLayout, WorkerFactory
from drumline.runtime.cluster.driven_host import DrivenHost
from drumline.runtime.cluster.gathering import waits_among
from drumline.runtime.cluster.host_roster import LATE_SECONDS, HostRoster
from drumline.runtime.cluster.host_supply import HostSupply
from drumline.runtime.cluster.issued_tasks import IssuedTasks
from drumline.runtime.cluster.node_checks import arithmetic_variables
from drumline.runtime.cluster.node_messages import (
    Close,
    Done,
    Heard,
    HostSpec,
    Lost,
    Nodes,
    Proof,
    WakeAt,
    Withdraw,
)
from drumline.runtime.cluster.replicas import UpdateLog
from drumline.runtime.cluster.traffic import Traffic
from drumline.runtime.deaths import STRIKES
from drumline.runtime.failures import raised, unpacked, unreadable
from drumline.runtime.portable import by_reference
from drumline.runtime.published import SLOTS
from drumline.runtime.shared_arrays import SharedArrays
from drumline.types import ProcessActivity, Span

_LOGGER = logging.getLogger("drumline")
_SPANS_KEPT = 50_000
_TICK = 0.25
_SILENT_SECONDS = 3.0
"""Silence of a host, which speaks every second, after which its tasks are issued elsewhere too.

A cluster takes longer to find out that a node is lost. A false alarm costs a few doubles. Many
hosts speak less often, and may be silent for three times as long as they wait."""
_CLOSE_SECONDS = 6.0


class NodePool:
    """A `WorkerPool` over the nodes of a cluster; nodes may come and go.

    `size` 0 takes every core. Shared arrays go one way: the driver's writes, told by
    `SharedArrays.wrote`, reach every node before the tasks submitted after them.
    """

    def __init__(
        self,
        factory: WorkerFactory,
        *,
        nodes: Nodes,
        size: int,
        published: PublishedLayout,
        versions: int = SLOTS,
        shared: SharedArrays | None = None,
        hang_seconds: float = 60.0,
        creation_seconds: float = 300.0,
        probe_factory: Callable[[], Probe] | None = None,
        role: str = "worker",
        one_task_leases: bool = False,
        claims_cores: bool = True,
        packages: Mapping[str, str] | None = None,
        proof: Proof | None = None,
        updates: UpdateLog | None = None,
        traffic: Traffic | None = None,
        log: Callable[[str], None] = _LOGGER.warning,
    ):
        """`updates`: nodes make each version themselves, from these; None: they are sent it."""
        if size < 0:
            raise ValueError(f"a pool needs a size of 0 (every core) or more, got {size}")
        self.size = max(1, size)
        """Worker processes of all hosts; at least 1."""
        self._nodes = nodes
        self._factory = factory
        self._log = log
        spec = HostSpec(
            size=0,
            factory=by_reference(factory, "the worker factory"),
            probe_factory=None
            if probe_factory is None
            else by_reference(probe_factory, "the probe factory"),
            published=published,
            versions=versions,
            shared=None if shared is None else shared.layout,
            hang_seconds=hang_seconds,
            creation_seconds=creation_seconds,
            role=role,
            one_task_leases=one_task_leases,
            search_path=list(sys.path),
            packages=packages or {},
            variables=arithmetic_variables(),
            proof=proof,
            replica=None if updates is None else by_reference(updates.factory, "the replica"),
        )
        self._drifts: Counter[str] = Counter()
        self._finished: list[Completed] = []
        self._errors: deque[WorkerError | TaskKilledWorkers] = deque()
        self._broken: Exception | None = None
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._last_look = time.perf_counter()
        self._closed = False
        self._roster = HostRoster(
            nodes,
            spec,
            wanted=size,
            claims_cores=claims_cores,
            patience=creation_seconds,
            log=log,
        )
        self._hosts = self._roster.hosts
        self._supply = HostSupply(
            self._hosts,
            published,
            versions,
            nodes.put,
            shared=shared,
            updates=updates,
            traffic=traffic,
        )
        self._tasks = IssuedTasks(
            self._hosts, self._supply, one_task_leases=one_task_leases, log=log
        )
        try:
            self._watch()
        except BaseException:
            self.close()
            raise

    @property
    def outstanding(self) -> int:
        """Tasks submitted, neither withdrawn nor returned."""
        return len(self._tasks.open.tasks)

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks, and send them at once to hosts with idle workers."""
        self._refuse_if_closed()
        refusal = self._tasks.push(tasks)
        self._dispatch()
        if refusal is not None:
            raise refusal

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return finished tasks, waiting for at least one; [] if no task can finish any more."""
        self._refuse_if_closed()
        deadline = None if timeout is None else time.perf_counter() + timeout
        remaining = _TICK if deadline is None else deadline - time.perf_counter()
        idle = self._finished or self._errors or not self._expecting()
        seconds = 0.0 if idle else max(0.0, min(remaining, _TICK))
        while True:
            self._take_in(seconds)
            self._dispatch()
            if self._finished:
                finished, self._finished = self._finished, []
                return finished
            if self._errors:
                raised(self._errors.popleft())
            if self._broken is not None:
                raised(self._broken)
            if self._tasks.open.mark_reached:
                self._tasks.open.mark_reached = False
                return []
            remaining = _TICK if deadline is None else deadline - time.perf_counter()
            if remaining <= 0 or not self._expecting():
                return []
            seconds = min(remaining, _TICK)

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the begun tasks in flight, each with its highest progress known here."""
        return self._tasks.open.progressed()

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this task object has progressed by `amount`."""
        serial = self._tasks.open.serial_of(task)
        if serial is None:
            if any(error.task is task for error in self._errors):
                return  # it has failed, and the next wait raises its exception
            raise ValueError(f"{task!r} is not in flight")
        if self._tasks.open.want(serial, amount):
            for host in self._hosts:
                if serial in host.held:
                    host.tell([WakeAt(serial, amount)])
                    host.flush()

    def withdraw(self) -> None:
        """Withdraw every task submitted so far; running ones are returned later, and marked."""
        self._refuse_if_closed()
        below = self._tasks.withdraw()
        self._errors.clear()
        self._finished = [done._replace(withdrawn=True) for done in self._finished]
        for host in self._hosts:
            if host.held:
                host.tell([Withdraw(below)])
                host.flush()

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every task submitted from now on; stored once for all nodes."""
        self._refuse_if_closed()
        self._supply.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever versions follow."""
        self._refuse_if_closed()
        self._supply.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that was heard of, dead ones included."""
        rows = [*self._roster.ended, *(row for host in self._hosts for row in host.activity)]
        return sorted(rows, key=lambda row: (row.index, row.restarts))

    def timeline(self) -> list[Span]:
        """Return the latest leases in the order of their answers, on the driver's clock."""
        return list(self._spans)

    def close(self) -> None:
        """End every host and its processes; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._tasks.tell_late()
        self._supply.close()
        for host in self._hosts:
            host.tell([Close()])
            host.flush()
        deadline = time.perf_counter() + _CLOSE_SECONDS
        left = [h for h in self._hosts if h.speaks and not h.silent and not h.closed]
        while left and (seconds := deadline - time.perf_counter()) > 0:
            for link, news in self._nodes.wait([host.link for host in left], seconds):
                host = next(host for host in left if host.link is link)
                host.closed = isinstance(news, Lost) or _ended(news)
                if isinstance(news, Heard):
                    self._spans += host.account(news)
            left = [host for host in left if not host.closed]
        for host in list(self._hosts):
            self._roster.remove(host)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this pool is closed")

    def _expecting(self) -> bool:
        below = self._tasks.open.withdrawn_below
        return bool(self._tasks.open.tasks) or any(
            serial < below for host in self._hosts if not host.silent for serial in host.held
        )

    def _dispatch(self) -> None:
        for host in self._hosts:
            if host.unwritten:
                self._supply.write(host)
        self._tasks.dispatch()
        for host in self._hosts:
            host.flush()

    def _take_in(self, seconds: float) -> None:
        links = {id(host.link): host for host in self._hosts}
        if links:
            news = self._nodes.wait([host.link for host in self._hosts], seconds)
        else:
            time.sleep(seconds)
            news = []
        now = time.perf_counter()
        elapsed, self._last_look = min(now - self._last_look, 2 * _TICK), now
        for host in self._hosts:
            host.silent_seconds += elapsed
        for link, what in news:
            host = links[id(link)]
            if host not in self._hosts:
                continue  # it has just been replaced
            if isinstance(what, Heard):
                self._listen(host, what)
            else:
                self._bury(host, what)
        longest = max(_SILENT_SECONDS, 3.0 * waits_among(len(self._hosts)).beat)
        for host in self._hosts:
            if host.silent_seconds > longest and host.speaks and not host.silent:
                self._doubt(host, longest)
            elif not host.speaks and not host.silent and now - host.began > LATE_SECONDS:
                host.silent = True  # another node may have cores for its workers
                self._log(f"waiting for node {host.node.name}, which may have no core free")
                self._roster.look_soon()
        if self._roster.is_due:
            self._watch()
        self.size = self._roster.workers

    def _listen(self, host: DrivenHost, news: Heard) -> None:
        if not host.speaks:
            self._errors += self._tasks.speaks(host)
        returns = host.silent
        host.speaks, host.silent, host.silent_seconds = True, False, 0.0
        host.told = max(host.told, news.told)
        host.closed = _ended(news)
        self._spans += host.account(news)
        for line in news.lines:
            self._log(f"node {host.node.name}: {line}")
        self._supply.count(host, answers=sum(map(len, filter(None, news.done.results))))
        if (version := self._supply.drifted(news.replicas)) is not None:
            self._replace(host, version)
            return
        self._supply.heard(host, news.done)
        self._settle(host, news.done)
        for serial, causes in news.condemned:
            host.held.pop(serial, None)
            if (opened := self._tasks.close(serial)) is not None:
                self._errors.append(TaskKilledWorkers(opened, causes))
        for serial, amount in news.progress:
            self._tasks.open.note(serial, amount)
        for serial in [serial for serial in host.held if serial < news.withdrawn_below]:
            del host.held[serial]
        if news.unbuilt is not None:
            self._broken = unpacked(self._factory, news.unbuilt)
        elif news.hopeless:
            self._broken = WorkersLost(f"node {host.node.name}: {news.hopeless}")
        elif news.refused:
            self._refuse(host, news.refused)
        elif returns and self._roster.is_over:
            self._dismiss(host)

    def _settle(self, host: DrivenHost, done: Done) -> None:
        """Take the results of tasks that wait for one; those of doubles are dropped."""
        tasks = self._tasks.settle(host, done.serials)
        below, offset = self._tasks.open.withdrawn_below, host.offset or 0.0
        columns = zip(tasks, done.serials, done.results, done.began, done.ended, strict=True)
        finished, loads = self._finished.append, pickle.loads
        for task, serial, pickled, began, ended in columns:
            if task is None:
                continue
            withdrawn = serial < below
            if serial in done.failures and not withdrawn:
                self._errors.append(unpacked(task, done.failures[serial]))
                continue
            try:
                result = None if pickled is None else loads(pickled)
            except Exception as error:  # noqa: BLE001 - a result's class may run any code
                self._errors.append(unreadable(task, error))
                continue
            finished(Completed(task, result, withdrawn, began + offset, ended + offset))

    def _watch(self) -> None:
        """Start hosts on nodes without one, as far as workers are missing."""
        present = self._roster.look()
        self._tasks.deaths.only_on(present)
        for host in [host for host in self._hosts if host.node.id not in present]:
            self._bury(host, Lost("the loss of its node", node_gone=True))
        for host in self._roster.fill(present):
            self._supply.begin(host)
        self.size = self._roster.workers

    def _replace(self, host: DrivenHost, version: int) -> None:
        """End a host whose replica has drifted: nothing that it computed or holds can be used."""
        self._drifts[host.node.id] += 1
        if self._drifts[host.node.id] >= STRIKES:
            self._refuse(
                host,
                f"its replica drifted {STRIKES} times, the last time at version {version}: its "
                "memory or processor is not sound, or computes other bits than the driver's",
            )
            return
        self._roster.remove(host)
        count = self._tasks.take_back(host)
        self._log(
            f"node {host.node.name}: its parameters of version {version} are not the driver's; "
            f"a new host starts from the driver's, {count} tasks issued again"
        )
        self._roster.look_soon()  # look at once for a node to take its place

    def _refuse(self, host: DrivenHost, why: str) -> None:
        self._tasks.take_back(host)
        self._roster.refuse(host, why)

    def _doubt(self, host: DrivenHost, seconds: float) -> None:
        """Issue the tasks of a silent host elsewhere too; the first result counts."""
        host.silent = True
        count = self._tasks.issue_elsewhere(host)
        self._log(
            f"node {host.node.name} has said nothing for {seconds:g} s; "
            f"{count} tasks issued elsewhere too"
        )
        self._roster.look_soon()  # another node may have cores to spare

    def _dismiss(self, host: DrivenHost) -> None:
        """End a host that speaks again: others have its place, and all workers asked for."""
        count = self._tasks.take_back(host)
        self._roster.remove(host)
        self._log(
            f"node {host.node.name} speaks again, but others have taken its place; "
            f"{count} tasks issued again"
        )

    def _bury(self, host: DrivenHost, lost: Lost) -> None:
        self._roster.remove(host)
        held = [serial for serial in host.held if serial in self._tasks.open.tasks]
        count = self._tasks.take_back(host)
        self._log(f"node {host.node.name}: host lost by {lost.cause}; {count} tasks issued again")
        self._roster.look_soon()  # look at once for a node to take its place
        if lost.node_gone:
            self._tasks.deaths.node_lost(host.node.id)
        elif self._tasks.deaths.ended(host.node.id, held, lost.cause):
            self._broken = WorkersLost(
                f"the host on node {host.node.name} ended {STRIKES} times in a row without "
                f"finishing a task, the last time by {lost.cause}"
            )


def _ended(news: Heard) -> bool:
    return news.closed or bool(news.refused or news.hopeless) or news.unbuilt is not None
