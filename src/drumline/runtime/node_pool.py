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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.errors import TaskKilledWorkers, WorkerError, WorkersLost
from drumline.protocols import Completed, Probe, PublishedLayout, WorkerFactory
from drumline.runtime.deaths import STRIKES
from drumline.runtime.failures import raised, unpacked, unreadable
from drumline.runtime.host_deaths import HostDeaths
from drumline.runtime.leases import Pace, TaskQueue, lease_size, may_wait
from drumline.runtime.node_messages import (
    Close,
    Command,
    Done,
    Heard,
    HostSpec,
    Link,
    Lost,
    Node,
    Nodes,
    Parcel,
    Proof,
    Publish,
    Submit,
    WakeAt,
    Withdraw,
    Write,
)
from drumline.runtime.portable import by_reference, quickly
from drumline.runtime.published import SLOTS, PublishedSlots, slots_layout
from drumline.runtime.replica_commands import ReplicaCommands
from drumline.runtime.replicas import UpdateLog
from drumline.runtime.shared_arrays import SharedArrays
from drumline.runtime.stragglers import Stragglers
from drumline.runtime.traffic import Traffic
from drumline.types import ProcessActivity, Span

_LOGGER = logging.getLogger("drumline")
_SPANS_KEPT = 50_000
_TICK = 0.25
_WATCH_SECONDS = 1.0
"""Time between two looks at which nodes there are."""
_SILENT_SECONDS = 3.0
"""Silence of a host, which speaks every second, after which its tasks are issued elsewhere too.

A cluster takes longer to find out that a node is lost. A false alarm costs a few doubles."""
_LATE_LINE_SECONDS = 30.0
"""Time between two lines about late tasks."""
_CLOSE_SECONDS = 6.0
_CHUNK_BYTES = 8 << 20
_CHUNKS_UNDERWAY = 4


class _Host:
    """A host as the driver sees it."""

    def __init__(self, node: Node, link: Link, size: int, first: int):
        self.node = node
        self.link = link
        self.size = size
        self.first = first
        """Index of its first worker; no two hosts of a pool share an index."""
        self.held: dict[int, Any] = {}
        """Tasks by serial that it has and has not answered."""
        self.pace = Pace()
        self.has: frozenset[int] = frozenset()
        """Versions that it was sent."""
        self.replica: int | None = None
        """Version to which its replica was brought; None: it has none yet."""
        self.unwritten: deque[tuple[str, int, int]] = deque()
        """(name, first, last): rows of the shared arrays that it has not been sent."""
        self.tells = 0
        self.told = -1
        self.silent_seconds = 0.0
        self.silent = False
        self.offset: float | None = None
        """Driver's clock minus host's clock, in seconds."""
        self.activity: Sequence[ProcessActivity] = ()
        self.speaks = False
        """Whether it has said anything yet."""
        self.closed = False

    def tell(self, commands: Sequence[Command], data: Sequence[Any] = ()) -> None:
        self.link.tell(self.tells, commands, data)
        self.tells += 1


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
        self._wanted = size
        self._nodes = nodes
        self._factory = factory
        self._role = role
        self._log = log
        self._one_task_leases = one_task_leases
        self._claims_cores = claims_cores
        self._patience = creation_seconds
        self._shared = shared
        self._spec = HostSpec(
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
            proof=proof,
            replica=None if updates is None else by_reference(updates.factory, "the replica"),
        )
        self._updates = updates
        self._traffic = traffic
        self._replicas = None if updates is None else ReplicaCommands(updates, nodes.put)
        self._published = -1
        self._drifts: Counter[str] = Counter()
        memory = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in slots_layout(published, versions).arrays.items()
        }
        self._slots = PublishedSlots(published, memory)
        self._slots.clear()
        self._put: dict[int, Any] = {}
        self._retained: frozenset[int] = frozenset()
        self._queue = TaskQueue()
        self._open: dict[int, tuple[Any, bytes]] = {}
        """Tasks by serial that were neither withdrawn nor returned, with their pickles."""
        self._withdrawn_below = 0
        self._finished: list[Completed] = []
        self._errors: deque[WorkerError | TaskKilledWorkers] = deque()
        self._broken: Exception | None = None
        self._highest: dict[int, int] = {}
        self._marks: dict[int, int] = {}
        self._mark_reached = False
        self._deaths = HostDeaths()
        self._stragglers = Stragglers()
        self._last_late = self._last_told_late = -np.inf
        self._refused: dict[str, str] = {}
        self._hosts: list[_Host] = []
        self._workers_made = 0
        self._ended: list[ProcessActivity] = []
        self._spans: deque[Span] = deque(maxlen=_SPANS_KEPT)
        self._last_watch = -np.inf
        self._last_look = time.perf_counter()
        self._alone_since: float | None = None
        self._closed = False
        if shared is not None:
            shared.watch(self._wrote)
        if updates is not None:
            updates.watch(self._advance)
        try:
            self._watch()
        except BaseException:
            self.close()
            raise

    @property
    def outstanding(self) -> int:
        """Tasks submitted, neither withdrawn nor returned."""
        return len(self._open)

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks, and send them at once to hosts with idle workers."""
        self._refuse_if_closed()
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
        for serial, task, pickled in zip(serials, travelling, pickles, strict=True):
            self._open[serial] = (task, pickled)
        self._dispatch()
        if refusal is not None:
            raise refusal

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return finished tasks, waiting for at least one; [] if no task can finish any more."""
        self._refuse_if_closed()
        deadline = None if timeout is None else time.perf_counter() + timeout
        seconds = 0.0
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
            if self._mark_reached:
                self._mark_reached = False
                return []
            remaining = _TICK if deadline is None else deadline - time.perf_counter()
            if remaining <= 0 or not self._expecting():
                return []
            seconds = min(remaining, _TICK)

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the begun tasks in flight, each with its highest progress known here."""
        opened = self._open
        return [(opened[k][0], amount) for k, amount in self._highest.items() if k in opened]

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once this task object has progressed by `amount`."""
        serial = next((serial for serial, (other, _) in self._open.items() if other is task), None)
        if serial is None:
            if any(error.task is task for error in self._errors):
                return  # it has failed, and the next wait raises its exception
            raise ValueError(f"{task!r} is not in flight")
        if self._highest.get(serial, 0) >= amount:
            self._mark_reached = True
            return
        self._marks[serial] = amount
        for host in self._hosts:
            if serial in host.held:
                host.tell([WakeAt(serial, amount)])

    def withdraw(self) -> None:
        """Withdraw every task submitted so far; running ones are returned later, and marked."""
        self._refuse_if_closed()
        self._withdrawn_below = self._queue.next_serial
        self._queue.clear()
        self._errors.clear()
        self._open.clear()
        self._highest.clear()
        self._marks.clear()
        self._deaths.clear()
        self._stragglers.clear()
        self._finished = [done._replace(withdrawn=True) for done in self._finished]
        for host in self._hosts:
            if host.held:
                host.tell([Withdraw(self._withdrawn_below)])

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Publish `version` to every task submitted from now on; stored once for all nodes."""
        self._refuse_if_closed()
        if self._replicas is not None and version != (ready := self._replicas.version):
            raise ValueError(f"published version {version}, but the replicas are of {ready}")
        self._slots.publish(version, arrays)
        self._published = version
        if self._replicas is not None:
            return
        held = self._slots.held()
        stored = self._nodes.put({name: array.copy() for name, array in arrays.items()})
        self._put = {k: v for k, v in self._put.items() if k in held} | {version: stored}
        for host in self._hosts:
            host.has = host.has & held - {version}

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call, whatever versions follow."""
        self._refuse_if_closed()
        self._slots.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that was heard of, dead ones included."""
        rows = [*self._ended, *(row for host in self._hosts for row in host.activity)]
        return sorted(rows, key=lambda row: (row.index, row.restarts))

    def timeline(self) -> list[Span]:
        """Return the latest leases in the order of their answers, on the driver's clock."""
        return list(self._spans)

    def close(self) -> None:
        """End every host and its processes; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._tell_late()
        if self._shared is not None:
            self._shared.unwatch(self._wrote)
        if self._updates is not None:
            self._updates.unwatch(self._advance)
        for host in self._hosts:
            host.tell([Close()])
        deadline = time.perf_counter() + _CLOSE_SECONDS
        left = [host for host in self._hosts if host.speaks and not host.silent]
        while left and (seconds := deadline - time.perf_counter()) > 0:
            for link, news in self._nodes.wait([host.link for host in left], seconds):
                host = next(host for host in left if host.link is link)
                host.closed = isinstance(news, Lost) or _ended(news)
                if isinstance(news, Heard):
                    self._account(host, news)
            left = [host for host in left if not host.closed]
        for host in self._hosts:
            self._ended += host.activity
            host.link.end()
        self._hosts = []

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this pool is closed")

    def _expecting(self) -> bool:
        below = self._withdrawn_below
        return bool(self._open) or any(
            serial < below for host in self._hosts if not host.silent for serial in host.held
        )

    # tasks to hosts

    def _dispatch(self) -> None:
        for host in self._hosts:
            if host.unwritten:
                self._write(host)
        while self._queue and (host := self._neediest()) is not None:
            self._send(host, self._queue.take(self._room(host)).serials)
        if self._open and not self._queue:
            self._double_late_tasks()

    def _neediest(self) -> _Host | None:
        """Return the host with the largest share of its workers idle; None: all have enough."""
        ready = [host for host in self._hosts if self._room(host) > 0]
        return max(ready, key=lambda host: -len(host.held) / host.size, default=None)

    def _room(self, host: _Host) -> int:
        """Return the number of queued tasks that a host may be sent now.

        Its workers count as one each: a lease to begin, and one in reserve while the queue is long.
        """
        if not self._takes_tasks(host):
            return 0
        queued, held = len(self._queue), len(host.held)
        if self._deaths.any_suspects:
            if any(map(self._deaths.is_suspect, host.held)):
                return 0
            if any(self._deaths.is_suspect(serial) for serial, _ in self._queue):
                return 1 if held == 0 else 0
        if self._one_task_leases:
            return min(queued, host.size - held)
        lease = lease_size(queued, self.size, host.pace)
        leases = 2 if may_wait(lease, queued, self.size) else 1
        return min(queued, leases * lease * host.size - held)

    def _takes_tasks(self, host: _Host) -> bool:
        ready = host.speaks and not host.silent and not host.unwritten
        return ready and not self._leaves_too_soon(host)

    def _double_late_tasks(self) -> None:
        """Send late tasks to idle workers of other hosts; the first result counts."""
        now = time.perf_counter()
        if len(self._hosts) < 2 or now - self._last_late < _TICK or self._deaths.any_suspects:
            return
        self._last_late = now
        idle = {
            host.first: host.size - len(host.held)
            for host in self._hosts
            if self._takes_tasks(host) and len(host.held) < host.size
        }
        late = self._stragglers.late(now) if idle else []
        for serial in late:
            others = [h for h in self._hosts if idle.get(h.first, 0) and serial not in h.held]
            if not others:
                continue
            host = max(others, key=lambda host: idle[host.first] / host.size)
            idle[host.first] -= 1
            self._send(host, [serial], again=True)
        if now - self._last_told_late > _LATE_LINE_SECONDS:
            self._last_told_late = now
            self._tell_late()

    def _tell_late(self) -> None:
        """Log the number of late tasks, if it has grown."""
        if line := self._stragglers.news():
            self._log(line)

    def _leaves_too_soon(self, host: _Host) -> bool:
        leaves_in = host.node.leaves_in
        if leaves_in is None:
            return False
        pace = host.pace.seconds_per_task
        return pace is None or leaves_in < 2 * pace * host.size + _WATCH_SECONDS

    def _send(self, host: _Host, serials: Iterable[int], *, again: bool = False) -> None:
        # The result of a double may be here by now, or its host speaks again.
        serials = [k for k in serials if k in self._open and k not in host.held]
        if not serials:
            return
        commands, data = self._missing(host)
        tasks = {serial: self._open[serial] for serial in serials}
        commands.append(Submit(tuple(Parcel(k, pickled) for k, (_, pickled) in tasks.items())))
        commands += [WakeAt(k, self._marks[k]) for k in serials if k in self._marks]
        host.tell(commands, data)
        self._count(host, tasks=sum(len(pickled) for _, pickled in tasks.values()))
        host.held.update((k, task) for k, (task, _) in tasks.items())
        now, warm = time.perf_counter(), host.pace.seconds_per_task is not None
        for serial, (task, _) in tasks.items():
            if again:
                self._stragglers.sent_twice(serial, host.first)
            else:
                self._stragglers.sent(serial, _kind(task), now, counts=warm)

    def _missing(self, host: _Host) -> tuple[list[Command], list[Any]]:
        if self._replicas is not None:
            return self._missing_updates(host, self._replicas)
        held = self._slots.held()
        missing = sorted(held - host.has)
        host.has = frozenset(held)
        kept = tuple(held)
        size = sum(array.nbytes for v in missing for array in self._slots.read(v).values())
        self._count(host, parameters=size)
        return [Publish(version, kept) for version in missing], [self._put[v] for v in missing]

    def _missing_updates(
        self, host: _Host, replicas: ReplicaCommands
    ) -> tuple[list[Command], list[Any]]:
        commands, data, sizes = replicas.steps(host.replica)
        host.replica = replicas.version
        self._count(host, **sizes)
        return commands, data

    def _advance(self) -> None:
        """Tell hosts the newest update; others get it with their next tasks."""
        assert self._replicas is not None, "only a pool with replicas watches a log"
        for host in self._hosts:
            if host.replica == self._replicas.version - 1 and not host.silent:
                host.tell(*self._missing_updates(host, self._replicas))

    def _count(self, host: _Host, **sizes: int) -> None:
        if self._traffic is not None:
            self._traffic.add(self._published + 1, host.node.name, **sizes)

    def _wrote(self, name: str, first: int, last: int) -> None:
        for host in self._hosts:
            host.unwritten.append((name, first, last))

    def _write(self, host: _Host) -> None:
        """Send a host rows of the shared arrays, a few chunks at a time."""
        assert self._shared is not None, "rows are written to shared arrays only"
        arrays = self._shared.arrays
        while host.unwritten and host.speaks and host.tells - host.told <= _CHUNKS_UNDERWAY:
            commands: list[Command] = []
            rows: list[Any] = []
            room = _CHUNK_BYTES
            while host.unwritten and room > 0:
                name, first, last = host.unwritten.popleft()
                width = max(1, arrays[name][:1].nbytes)
                end = min(last, first + max(1, room // width))
                if end < last:
                    host.unwritten.appendleft((name, end, last))
                commands.append(Write(name, first))
                rows.append(arrays[name][first:end].copy())
                room -= rows[-1].nbytes
            host.tell(commands, rows)
            self._count(host, shared=_CHUNK_BYTES - room)

    # news from hosts

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
        for host in self._hosts:
            if host.silent_seconds > _SILENT_SECONDS and host.speaks and not host.silent:
                self._doubt(host)
        if now - self._last_watch >= _WATCH_SECONDS:
            self._watch()

    def _listen(self, host: _Host, news: Heard) -> None:
        if not host.speaks:
            self._judge(self._deaths.node_lives(host.node.id, self._open.keys()))
        host.speaks, host.silent, host.silent_seconds = True, False, 0.0
        host.told = max(host.told, news.told)
        self._account(host, news)
        for line in news.lines:
            self._log(f"node {host.node.name}: {line}")
        self._count(host, answers=sum(len(done.result or b"") for done in news.done))
        for version, digest in news.replicas:
            if self._replicas is not None and self._replicas.differs(version, digest, self._slots):
                self._replace(host, version)
                return
        for done in news.done:
            self._settle(host, done)
        for serial, causes in news.condemned:
            host.held.pop(serial, None)
            if (opened := self._close_task(serial)) is not None:
                self._errors.append(TaskKilledWorkers(opened, causes))
        for serial, amount in news.progress:
            if serial in self._open and amount > self._highest.get(serial, 0):
                self._highest[serial] = amount
                if amount >= self._marks.get(serial, sys.maxsize):
                    del self._marks[serial]
                    self._mark_reached = True
        for serial in [serial for serial in host.held if serial < news.withdrawn_below]:
            del host.held[serial]
        if news.unbuilt is not None:
            self._broken = unpacked(self._factory, news.unbuilt)
        elif news.hopeless:
            self._broken = WorkersLost(f"node {host.node.name}: {news.hopeless}")
        elif news.refused:
            self._refuse(host, news.refused)

    def _account(self, host: _Host, news: Heard) -> None:
        """Take over a host's rows and stretches of work, on the driver's clock."""
        ahead = time.perf_counter() - news.clock
        host.offset = ahead if host.offset is None else min(host.offset, ahead)
        host.activity = [row._replace(index=host.first + row.index) for row in news.activity]
        for span in news.spans:
            start, end = span.start + host.offset, span.end + host.offset
            if span.tasks:
                host.pace.observe(span.tasks, end - start)
            index = host.first + span.index
            self._spans.append(span._replace(index=index, start=start, end=end))

    def _settle(self, host: _Host, done: Done) -> None:
        task = host.held.pop(done.serial, None)
        self._deaths.finished(host.node.id)
        withdrawn = done.serial < self._withdrawn_below
        if task is None or (not withdrawn and done.serial not in self._open):
            return  # a double: its first result was folded
        self._stragglers.answered(done.serial, host.first, time.perf_counter())
        self._close_task(done.serial)
        if done.failure is not None and not withdrawn:
            self._errors.append(unpacked(task, done.failure))
            return
        offset = host.offset or 0.0
        try:
            result = None if done.result is None else pickle.loads(done.result)
        except Exception as error:  # noqa: BLE001 - a result's class may run any code
            self._errors.append(unreadable(task, error))
            return
        began, ended = done.began + offset, done.ended + offset
        self._finished.append(Completed(task, result, withdrawn, began, ended))

    def _close_task(self, serial: int) -> Any:
        """Forget an open task and return it; None if it is not open."""
        self._highest.pop(serial, None)
        self._marks.pop(serial, None)
        self._deaths.forget(serial)
        self._stragglers.forget(serial)
        opened = self._open.pop(serial, None)
        return None if opened is None else opened[0]

    # hosts that come and go

    def _watch(self) -> None:
        """Start hosts on nodes without one, as far as workers are missing."""
        self._last_watch = time.perf_counter()
        present = {node.id: node for node in self._nodes.present()}
        self._deaths.only_on(present)
        for host in list(self._hosts):
            if host.node.id in present:
                host.node = present[host.node.id]
            else:
                self._bury(host, Lost("the loss of its node", node_gone=True))
        taken = {host.node.id for host in self._hosts}
        free = [n for n in present.values() if n.id not in taken and n.id not in self._refused]
        free = [node for node in free if node.leaves_in is None]
        missing = self._wanted - sum(host.size for host in self._hosts)
        cores = {node.id: node.cores for node in free}
        sizes = cores if self._wanted == 0 else even_sizes(cores, missing)
        for node in free:
            if sizes[node.id] > 0:
                self._start(node, sizes[node.id])
        self._give_up_if_alone()

    def _start(self, node: Node, size: int) -> None:
        spec = self._spec._replace(size=size)
        cores = min(size, node.cores) if self._claims_cores else 0
        link = self._nodes.start(node, spec, cores)
        host = _Host(node, link, size, self._workers_made)
        self._workers_made += size
        if self._shared is not None and self._updates is None:  # a replica fills them itself
            arrays = self._shared.arrays
            host.unwritten.extend((name, 0, len(array)) for name, array in arrays.items())
        self._hosts.append(host)
        self._count_workers()

    def _count_workers(self) -> None:
        self.size = max(1, sum(host.size for host in self._hosts))

    def _give_up_if_alone(self) -> None:
        if self._hosts:
            self._alone_since = None
            return
        if self._refused:
            raise WorkersLost("no node can take part: " + "; ".join(self._refused.values()))
        now = time.perf_counter()
        if self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > self._patience:
            raise WorkersLost(
                f"the cluster has had no node with cores for {self._patience:g} s: "
                "start one, then go on with drumline resume"
            )

    def _replace(self, host: _Host, version: int) -> None:
        """End a host whose replica has drifted: nothing that it computed or holds can be used."""
        self._drifts[host.node.id] += 1
        if self._drifts[host.node.id] >= STRIKES:
            self._refuse(
                host,
                f"its replica drifted {STRIKES} times, the last time at version {version}: its "
                "memory or processor is not sound, or computes other bits than the driver's",
            )
            return
        self._hosts.remove(host)
        self._count_workers()
        host.link.end()
        self._ended += host.activity
        count = self._return(host)
        self._log(
            f"node {host.node.name}: its parameters of version {version} are not the driver's; "
            f"a new host starts from the driver's, {count} tasks issued again"
        )
        self._last_watch = -np.inf  # look at once for a node to take its place

    def _refuse(self, host: _Host, why: str) -> None:
        self._hosts.remove(host)
        self._count_workers()
        host.link.end()
        self._return(host)
        self._refused[host.node.id] = f"node {host.node.name}: {why}"
        if self._hosts:
            self._log(f"{self._refused[host.node.id]}; the run goes on without it")
        self._give_up_if_alone()

    def _doubt(self, host: _Host) -> None:
        """Issue the tasks of a silent host elsewhere too; the first result counts."""
        host.silent = True
        again = [(k, task) for k, task in host.held.items() if k in self._open]
        self._queue.push_front(again)
        self._log(
            f"node {host.node.name} has said nothing for {_SILENT_SECONDS:g} s; "
            f"{len(again)} tasks issued elsewhere too"
        )

    def _return(self, host: _Host) -> int:
        """Queue the tasks that only this host held."""
        elsewhere = {serial for other in self._hosts for serial in other.held}
        queued = {serial for serial, _ in self._queue}
        known = elsewhere | queued
        again = [(k, t) for k, t in host.held.items() if k in self._open and k not in known]
        self._queue.push_front(again)
        host.held.clear()
        return len(again)

    def _bury(self, host: _Host, lost: Lost) -> None:
        self._hosts.remove(host)
        self._count_workers()
        host.link.end()
        self._ended += host.activity
        held = [serial for serial in host.held if serial in self._open]
        count = self._return(host)
        self._log(f"node {host.node.name}: host lost by {lost.cause}; {count} tasks issued again")
        self._last_watch = -np.inf  # look at once for a node to take its place
        if lost.node_gone:
            self._deaths.node_lost(host.node.id)
        elif self._deaths.ended(host.node.id, held, lost.cause):
            self._broken = WorkersLost(
                f"the host on node {host.node.name} ended {STRIKES} times in a row without "
                f"finishing a task, the last time by {lost.cause}"
            )

    def _judge(self, condemned: Iterable[tuple[int, list[str]]]) -> None:
        """Fail the tasks that have ended a host while they were alone on it."""
        for serial, causes in condemned:
            queued = [(k, task) for k, task in self._queue if k != serial]
            self._queue.clear()
            self._queue.push_front(queued)
            self._errors.append(TaskKilledWorkers(self._close_task(serial), causes))


def even_sizes(cores: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return the number of workers on each node: one a core in turn, then beyond the cores.

    >>> even_sizes({"a": 2, "b": 4}, 5)
    {'a': 2, 'b': 3}
    >>> even_sizes({"a": 1, "b": 1}, 4)
    {'a': 2, 'b': 2}
    """
    sizes = dict.fromkeys(cores, 0)
    for _ in range(workers if cores else 0):
        least = min(sizes, key=lambda node: (sizes[node] >= cores[node], sizes[node]))
        sizes[least] += 1
    return sizes


def _kind(task: Any) -> Any:
    """Return what tasks of about the same length share."""
    return type(task), getattr(task, "training", None)


def _ended(news: Heard) -> bool:
    return news.closed or bool(news.refused or news.hopeless) or news.unbuilt is not None
