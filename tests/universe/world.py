"""World: simulated processes in one interpreter, a clock of its own, and a seeded scheduler.

Every process is a set of greenlets that run the real code. Each call that would enter the kernel is
a point: the clock moves, a fault may strike, and the scheduler chooses which process goes on. A
process that is killed is never resumed, so no `finally` of it runs, as after SIGKILL.
"""

import errno
import math
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from greenlet import getcurrent, greenlet

from universe.memory import Memories

KILLS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS)
MOST_POINTS = 400_000
START = 1000.0
"""Time at which every universe begins."""
FIRST_DESCRIPTOR = 1_000_000
"""Smallest simulated descriptor: no real one has such a number."""


GRAVES: list[Any] = []
"""Threads of dead processes, kept: collecting them would run their `finally` blocks."""


class Stuck(Exception):
    """The driver waits for ever, or runs without an end: progress must come where faults end."""


class Exited(BaseException):
    """The end of a simulated process by `os._exit`."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@dataclass
class Plan:
    """Faults of a universe: how often each strikes at a point, and how many at most."""

    kill: float = 0.0
    exit: float = 0.0
    hang: float = 0.0
    stop: float = 0.0
    driver_kill: float = 0.0
    power_loss: float = 0.0
    full: float = 0.0
    """Chance that a write finds the disk full, for a time or until a person makes room."""
    error: float = 0.0
    """Chance of an input/output error in a write or sync."""
    most: float = 0
    """Deaths and hangs of children; more than two at one place are a failure by contract."""
    most_driver: float = 0
    most_disk: float = 0
    slow: float = 1.0
    """Largest factor by which a process is slower than another."""
    order: str = "strong"
    """Order in which processes see the stores of others: see `universe.memory`."""
    most_points: float = math.inf
    """Points after which the driver is killed."""


FAULTS = {
    "kill": "kill",
    "exit": "exit",
    "hang": "hang",
    "stop": "stop",
    "driver kill": "driver_kill",
    "power loss": "power_loss",
    "full disk": "full",
    "disk error": "error",
}
"""Kinds of faults, each with its field of a Plan."""


class Task:
    """A thread of a simulated process."""

    def __init__(self, process: "Process", run: Callable[[], None], parent: greenlet):
        self.process = process
        self.greenlet = greenlet(run, parent)
        self.ready: Callable[[], bool] = lambda: True
        self.deadline: float | None = None
        self.done = False


@dataclass(eq=False)
class Process:
    """A simulated process: its threads, descriptors and arguments."""

    world: "World"
    pid: int
    argv: list[str]
    parent: "Process | None" = None
    tasks: list[Task] = field(default_factory=list)
    descriptors: dict[int, Any] = field(default_factory=dict)
    status: int | None = None
    """Exit code, or minus the signal; None while it lives."""
    stopped_until: float = 0.0
    hung: bool = False
    pace: float = 1.0
    error: BaseException | None = None
    files: list[int] = field(default_factory=list)
    """Real descriptors that hold locks, closed with the process."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.status is None


class World:
    """One universe."""

    def __init__(self, seed: int, plan: Plan):
        self.rng = random.Random(seed)
        self.plan = plan
        self.now = START
        self.points = 0
        self.injected: Counter[str] = Counter()
        self.log: list[str] = []
        self.processes: list[Process] = []
        self.capacity = self.rng.choice([64, 700, 4096, 65536])
        self.selects = self.rng.random() < 0.5
        """Whether descriptors are as small as `select` takes them."""
        self._hub = getcurrent()
        self._task: Task | None = None
        self._tasks: list[Task] = []
        """Threads of living processes that have not ended, by process."""
        self._changed = False
        """Whether a thread has begun or ended, or a process, since they were listed."""
        self.on_power_loss: Callable[[], None] | None = None
        self.memories = Memories(self.rng, plan.order)
        self.full_until = 0.0
        """Time at which the disk has room again."""

    # processes

    @property
    def process(self) -> Process:
        """Return the process that runs now."""
        assert self._task is not None, "no simulated process runs"
        return self._task.process

    @property
    def inside(self) -> bool:
        """Whether a simulated process runs now."""
        return self._task is not None and getcurrent() is self._task.greenlet

    def spawn(
        self, run: Callable[[], None], argv: list[str], parent: Process | None = None
    ) -> Process:
        """Start a process."""
        process = Process(self, 100 + len(self.processes), argv, parent)
        process.pace = self.rng.uniform(1.0, self.plan.slow)
        self.processes.append(process)
        self.thread(process, run, main=True)
        return process

    def thread(self, process: Process, run: Callable[[], None], *, main: bool = False) -> Task:
        """Start a thread of a process."""

        def body() -> None:
            try:
                run()
            except Exited as end:
                self.end(process, end.code)
            except BaseException as error:  # noqa: BLE001 - a traceback ends a process with code 1
                process.error = error
                if main:
                    self.end(process, 1)
            else:
                if main:
                    self.end(process, 0)
            task.done = self._changed = True

        task = Task(process, body, self._hub)
        process.tasks.append(task)
        self._changed = True
        return task

    def end(self, process: Process, status: int) -> None:
        """End a process: the kernel closes its descriptors and kills its children."""
        if not process.alive:
            return
        process.status = status
        self._changed = True
        self.memories.ended(process)
        for descriptor in list(process.descriptors.values()):
            descriptor.close()
        process.descriptors.clear()
        for number in process.files:
            close_quietly(number)
        for child in self.processes:
            if child.parent is process:
                self.end(child, -signal.SIGKILL)

    def run(self, driver: Process) -> None:
        """Let processes take turns until the driver has ended."""
        while driver.alive:
            if self._changed:
                self._list()
            awake = [task for task in self._tasks if self._awake(task)]
            if not awake:
                times = [time for task in self._tasks if (time := self._wakes(task)) is not None]
                later = [time for time in times if time > self.now]
                if not later:
                    raise Stuck("every process waits for another")
                self.now = min(later)
                continue
            task = self.rng.choice(awake)
            self._task = task
            task.greenlet.switch()
            self._task = None
        GRAVES.extend(self.processes)

    def _list(self) -> None:
        """List the threads that may run; keep those of dead processes from being collected."""
        for process in self.processes:
            if not process.alive and process.tasks:
                GRAVES.extend(process.tasks)
                process.tasks = []
        self._tasks = [task for p in self.processes for task in p.tasks if not task.done]
        self._changed = False

    def _awake(self, task: Task) -> bool:
        process, now = task.process, self.now
        if process.hung or process.stopped_until > now:
            return False
        return task.ready() or (task.deadline is not None and task.deadline <= now)

    def _wakes(self, task: Task) -> float | None:
        process = task.process
        if process.hung:
            return None
        if process.stopped_until > self.now:
            return process.stopped_until
        return task.deadline if task.deadline is not None else self.now + 1e-3 * self._traffic()

    def _traffic(self) -> float:
        """Return 1 while bytes are under way that may wake a process, else nothing wakes it."""
        return 1.0 if any(getattr(d, "under_way", False) for d in self._descriptors()) else 0.0

    def _descriptors(self) -> list[Any]:
        return [d for p in self.processes if p.alive for d in p.descriptors.values()]

    # points

    def point(self, label: str, *, stored: bool = True) -> None:
        """Let time pass, let a fault strike, and let another process go on."""
        if not self.inside:
            return
        self.points += 1
        if self.points > MOST_POINTS:
            raise Stuck(f"no end after {MOST_POINTS} points")
        process = self.process
        if stored:
            self.memories.note(process, self.now)
        self.now += self.rng.expovariate(1.0) * 2e-5 * process.pace
        self._strike(process, label)
        self._switch(lambda: True, None)

    def call(self, label: str) -> None:
        """A point that is a system call."""
        if self.inside:
            self.memories.barrier(self.process, self.now)
            self.point(label, stored=False)
            self.memories.load(self.process)

    def block(self, ready: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until `ready()`, or for a time; returns whether it is ready."""
        self.memories.barrier(self.process, self.now)
        deadline = None if seconds is None else self.now + max(0.0, seconds)
        self._switch(ready, deadline)
        self.memories.load(self.process)
        return ready()

    def _switch(self, ready: Callable[[], bool], deadline: float | None) -> None:
        task = self._task
        assert task is not None
        task.ready, task.deadline = ready, deadline
        self._hub.switch()
        self.memories.pass_on(self.now)

    def _strike(self, process: Process, label: str) -> None:
        plan, rng = self.plan, self.rng
        if process.parent is None:
            self._strike_driver(process, label)
            return
        if rng.random() < plan.stop:
            process.stopped_until = self.now + rng.choice([0.01, 1.0, 5.0])
            self.memories.barrier(process, self.now)
            self._note("stop", process, label)
        if sum(self.injected[kind] for kind in ("kill", "exit", "hang")) >= plan.most:
            return
        chance = rng.random()
        if chance < plan.kill:
            self._note("kill", process, label)
            self.die(process, -rng.choice(KILLS))
        elif chance < plan.kill + plan.exit:
            self._note("exit", process, label)
            self.die(process, 0)
        elif chance < plan.kill + plan.exit + plan.hang:
            self._note("hang", process, label)
            process.hung = True
            self._switch(lambda: False, None)

    def _strike_driver(self, process: Process, label: str) -> None:
        plan = self.plan
        struck = self.injected["driver kill"] + self.injected["power loss"]
        if self.points > plan.most_points:
            self._note("driver kill", process, label)
            self.die(process, -signal.SIGKILL)
        if struck >= plan.most_driver:
            return
        chance = self.rng.random()
        if chance < plan.driver_kill:
            self._note("driver kill", process, label)
            self.die(process, -signal.SIGKILL)
        elif chance < plan.driver_kill + plan.power_loss and self.on_power_loss is not None:
            self._note("power loss", process, label)
            self.on_power_loss()
            self.die(process, -signal.SIGKILL)

    def disk_fault(self, label: str) -> None:
        """Raise OSError if the disk is full or fails."""
        if not self.inside:
            return
        plan, rng = self.plan, self.rng
        struck = self.injected["full disk"] + self.injected["disk error"]
        if struck < plan.most_disk:
            chance = rng.random()
            if chance < plan.full:
                self._note("full disk", self.process, label)
                self.full_until = self.now + rng.choice([0.01, 5.0, math.inf])
            elif chance < plan.full + plan.error:
                self._note("disk error", self.process, label)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @property
    def full(self) -> bool:
        """Whether the disk has no room now."""
        return self.now < self.full_until

    def die(self, process: Process, status: int) -> None:
        """End a process at this point; if it is the running one, it is never resumed."""
        self.end(process, status)
        if self._task is not None and self._task.process is process:
            self._gone()

    def _gone(self) -> NoReturn:
        self._hub.switch()
        raise AssertionError("a dead process was resumed")

    def _note(self, kind: str, process: Process, label: str) -> None:
        self.injected[kind] += 1
        self.log.append(f"{self.now - START:9.4f} s: {kind} of {process.pid} at {label}")


def close_quietly(number: int) -> None:
    """Close a real descriptor of a dead process."""
    with suppress(OSError):
        os.close(number)
