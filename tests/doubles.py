"""Test doubles that stand in for workers, probes and pools; children import this module too."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline.crew_protocols import Role, RoleContext, RoleFactory
from drumline.protocols import Completed, Probe, Worker, WorkerContext, WorkerPool
from drumline.runtime.crews.exchange import SERVED
from drumline.types import ProcessActivity, Span


class Digest(NamedTuple):
    """Task: hash `number` with the published arrays of `version`, taking about `seconds`."""

    number: int
    version: int = 0
    seconds: float = 0.0


def digest_worker(context: WorkerContext) -> Worker:
    """A worker whose result depends on the task and on the published arrays only."""

    def run(task: Digest) -> bytes:
        arrays = context.published(task.version)
        content = hashlib.sha256(repr((task.number, task.version)).encode())
        for name in sorted(arrays):
            content.update(arrays[name].tobytes())
        if task.seconds:
            time.sleep(task.seconds)
        context.progress(1)
        return content.digest()

    return run


def fold(results: Sequence[Completed]) -> bytes:
    """Fold results by their task's number, never by arrival."""
    assert not any(done.withdrawn for done in results)
    ordered = sorted(results, key=lambda done: done.task.number)
    return hashlib.sha256(b"".join(done.result for done in ordered)).digest()


def echo_worker(context: WorkerContext) -> Worker:
    """Returns the task itself."""
    return lambda task: task


def late_builder(context: WorkerContext) -> Worker:
    """Builds more of itself in a task: until the file that the task names is there."""

    def run(task: Path) -> bool:
        with context.building():
            wait_until(task.exists)
        return True

    return run


class OddNumber(ValueError):
    """An exception with a class of its own."""


def refuse_odd(context: WorkerContext) -> Worker:
    """Raises for odd numbers."""

    def run(task: int) -> int:
        if task % 2:
            raise OddNumber(f"{task} is odd")
        return task

    return run


class SilentError(Exception):
    """An exception without words: its `__str__` raises."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def refuse_silently(context: WorkerContext) -> Worker:
    """Raises an exception without words."""

    def run(task: int) -> int:
        raise SilentError

    return run


def broken_factory(context: WorkerContext) -> Worker:
    """Cannot be built."""
    raise RuntimeError("no such environment: Walk-v9")


def suicidal_factory(context: WorkerContext) -> Worker:
    """Ends its process while it is built."""
    os.kill(os.getpid(), signal.SIGKILL)
    return echo_worker(context)


def exiting_worker(context: WorkerContext) -> Worker:
    """Calls sys.exit, as some environments do."""

    def run(task: Any) -> Any:
        sys.exit(f"cannot run {task}")

    return run


class Deadly(NamedTuple):
    """Task: end the process that runs it if `kills`."""

    number: int
    kills: bool


def deadly_worker(context: WorkerContext) -> Worker:
    """Dies of some tasks."""

    def run(task: Deadly) -> int:
        if task.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return task.number

    return run


def patient_worker(context: WorkerContext) -> Worker:
    """Runs a task until it is called back; `True` says that it was."""

    def run(task: Any) -> bool:
        if task != "wait":
            return False
        context.shared["started"][0] = 1
        while not context.withdrawn():
            time.sleep(0.001)
        return True

    return run


def stepping_worker(context: WorkerContext) -> Worker:
    """Takes as many steps as the task says, each as soon as the shared word `gate` allows it."""

    def run(task: tuple[str, int]) -> str:
        name, steps = task
        for step in range(1, steps + 1):
            while context.shared["gate"][0] < step:
                time.sleep(0.001)
            context.progress(1)
        return name

    return run


def printing_worker(context: WorkerContext) -> Worker:
    """Writes to the standard output, from Python and past it."""

    def run(task: Any) -> Any:
        print("noise from Python", flush=True)
        os.write(1, b"noise from C\n")
        return task

    return run


def daemon_worker(context: WorkerContext) -> Worker:
    """Starts a program in a session of its own, whose parent ends at once; returns its pid."""

    def run(task: Any) -> int:
        sleeping = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', "
        sleeping += "'import time; time.sleep(600)'], start_new_session=True).pid)"
        # Not captured with a pipe that the program would keep open.
        with tempfile.TemporaryFile() as out:
            subprocess.run([sys.executable, "-c", sleeping], stdout=out, check=True)
            out.seek(0)
            return int(out.read())

    return run


def large_worker(context: WorkerContext) -> Worker:
    """Returns as many bytes as the task says."""
    return lambda task: np.full(task, task % 251, np.uint8)


def module_worker(context: WorkerContext) -> Worker:
    """Says which of the named modules this process has imported."""
    return lambda names: [name for name in names if name in sys.modules]


def environment_worker(context: WorkerContext) -> Worker:
    """Returns environment variables."""
    return lambda name: os.environ.get(name)


def function_worker(context: WorkerContext) -> Worker:
    """Returns what no pickle can hold."""
    return lambda task: lambda: task


def reusing_worker(context: WorkerContext) -> Worker:
    """Returns the same array object for every task, overwritten each time."""
    buffer = np.zeros(1, np.int64)

    def run(task: int) -> np.ndarray:
        buffer[0] = task
        return buffer

    return run


@dataclass(frozen=True)
class WritesShared:
    """Factory: writes the task's number into row `number` of the shared array."""

    name: str

    def __call__(self, context: WorkerContext) -> Worker:
        def run(task: int) -> int:
            context.shared[self.name][task] = task + 1
            return task

        return run


@dataclass(frozen=True)
class ReadsShared:
    """Factory: returns the row of the shared array that the task names."""

    name: str

    def __call__(self, context: WorkerContext) -> Worker:
        return lambda task: int(context.shared[self.name][task])


@dataclass(frozen=True)
class KillAt:
    """Probe factory: the first process to reach `point` kills itself, once in all."""

    point: str
    flag: Path

    def __call__(self) -> Probe:
        return self._probe

    def _probe(self, point: str) -> None:
        if point == self.point and first(self.flag):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class KillAtNth:
    """Probe factory: at each (point, n) the first process to get there the nth time kills itself.

    Each kill happens once in all; `folder` holds a file for every one that did.
    """

    places: tuple[tuple[str, int], ...]
    folder: Path

    def __call__(self) -> Probe:
        seen: Counter[str] = Counter()

        def probe(point: str) -> None:
            seen[point] += 1
            place = (point, seen[point])
            if place in self.places and first(self.folder / f"{point}-{seen[point]}"):
                os.kill(os.getpid(), signal.SIGKILL)

        return probe


@dataclass(frozen=True)
class KillEver:
    """Probe factory: a process at `point` for the nth time kills itself, and so do all later."""

    point: str
    number: int
    flag: Path

    def __call__(self) -> Probe:
        came = 0

        def probe(point: str) -> None:
            nonlocal came
            came += point == self.point
            if point == self.point and (came >= self.number or self.flag.exists()):
                self.flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        return probe


@dataclass(frozen=True)
class RaiseAt:
    """Probe factory: every process that comes to `point` raises there."""

    point: str

    def __call__(self) -> Probe:
        return self._probe

    def _probe(self, point: str) -> None:
        if point == self.point:
            raise OddNumber(f"at {point}")


@dataclass(frozen=True)
class HangAt:
    """Probe factory: the first process to reach `point` never goes on, once in all."""

    point: str
    flag: Path

    def __call__(self) -> Probe:
        return self._probe

    def _probe(self, point: str) -> None:
        if point == self.point and first(self.flag):
            while True:
                time.sleep(3600)


@dataclass(frozen=True)
class SleepAt:
    """Probe factory: every process sleeps for a random time at each of `points` (all if empty)."""

    points: tuple[str, ...] = ()
    longest: float = 0.005

    def __call__(self) -> Probe:
        rng = random.Random(os.getpid())

        def probe(point: str) -> None:
            if not self.points or point in self.points:
                time.sleep(rng.uniform(0.0, self.longest))

        return probe


@dataclass(frozen=True)
class GatherAt:
    """Probe factory: at its first `point` a process waits until `count` have come to it.

    So every process gets work, however late some have started.
    """

    point: str
    count: int
    folder: Path

    def __call__(self) -> Probe:
        self.folder.mkdir(exist_ok=True)
        came = self.folder / str(os.getpid())

        def probe(point: str) -> None:
            if point == self.point and first(came):
                deadline = time.monotonic() + 60.0
                while len(list(self.folder.iterdir())) < self.count:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"fewer than {self.count} processes came to {point}")
                    time.sleep(0.005)

        return probe


@dataclass(frozen=True)
class DiesBeforeRinging:
    """Actor factory: the first one to answer writes its state words and dies before it rings."""

    factory: RoleFactory
    flag: Path

    def __call__(self, context: RoleContext) -> Role:
        exchange: Any = context.exchange
        serve = exchange.serve

        def serve_and_die(environments: np.ndarray) -> None:
            if first(self.flag):
                exchange.state[environments] = SERVED
                os.kill(os.getpid(), signal.SIGKILL)
            serve(environments)

        exchange.serve = serve_and_die
        return self.factory(context)


def first(flag: Path) -> bool:
    """Whether this flag is asked for the first time."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class _Wrapper:
    """A pool that passes everything on to another one."""

    def __init__(self, pool: WorkerPool):
        self.pool: Any = pool
        self.size = pool.size

    def submit(self, tasks: Sequence[Any]) -> None:
        self.pool.submit(tasks)

    def completed(self, timeout: float | None = None) -> list[Completed]:
        return self.pool.completed(timeout)

    def progressed(self) -> list[tuple[Any, int]]:
        return self.pool.progressed()

    def wake_at(self, task: Any, amount: int) -> None:
        self.pool.wake_at(task, amount)

    def withdraw(self) -> None:
        self.pool.withdraw()

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        self.pool.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        self.pool.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        return self.pool.activity()

    def timeline(self) -> list[Span]:
        return self.pool.timeline()

    def close(self) -> None:
        self.pool.close()


class ShuffledPool(_Wrapper):
    """Returns results in an order drawn from `seed`, holding some of them back for a while."""

    def __init__(self, pool: WorkerPool, seed: int):
        super().__init__(pool)
        self._rng = random.Random(seed)
        self._held: list[Completed] = []

    def completed(self, timeout: float | None = None) -> list[Completed]:
        self._held += self.pool.completed(0.0 if self._held else timeout)
        self._rng.shuffle(self._held)
        count = self._rng.randint(min(1, len(self._held)), len(self._held))
        given, self._held = self._held[:count], self._held[count:]
        return given

    def withdraw(self) -> None:
        self.pool.withdraw()
        self._held = [done._replace(withdrawn=True) for done in self._held]


class FlakyPool(_Wrapper):
    """Kills a random worker of a process pool at every `every`-th call of `completed`."""

    def __init__(self, pool: Any, seed: int, every: int, deaths: int):
        super().__init__(pool)
        self.deaths = 0
        self._rng = random.Random(seed)
        self._every = every
        self._most = deaths
        self._calls = 0

    def completed(self, timeout: float | None = None) -> list[Completed]:
        self._calls += 1
        due = self._calls % self._every == 0 and self.deaths < self._most
        if due and all(
            self.pool.ready_seconds
        ):  # killing the unborn again and again is another test
            self.deaths += 1
            os.kill(self._rng.choice(living(self.pool)), signal.SIGKILL)
        return self.pool.completed(timeout)


def living(pool: WorkerPool) -> list[int]:
    """Return the pid of each place's latest process."""
    latest = {row.index: row.pid for row in pool.activity()}
    return list(latest.values())


def marked(mark: str) -> list[int]:
    """Return the living processes that have `mark` in their environment, inherited or given."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if mark.encode() in (place / "environ").read_bytes() and state != "Z":
                found.append(int(place.name))
        except OSError:
            continue  # it has ended, or belongs to another user
    return found


def collect(pool: WorkerPool, count: int) -> list[Completed]:
    """Wait for `count` results."""
    results: list[Completed] = []
    while len(results) < count:
        batch = pool.completed()
        assert batch, f"{len(results)} of {count} results came, and no more will"
        results += batch
    return results


def wait_ready(pool: Any) -> None:
    """Wait until every process of a pool without tasks has built its worker."""
    wait_until(lambda: not pool.completed(0.0) and all(pool.ready_seconds))


def wait_until(condition: Callable[[], bool], seconds: float = 150.0) -> None:
    """Wait for something that another process does."""
    deadline = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < deadline, "waited in vain"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # no process may be there to reap an orphan


class stacking_worker:
    """Runs up to four numbers side by side; an odd one fails, and a negative one is deadly."""

    at_once = 4

    def __init__(self, context: WorkerContext):
        pass

    def __call__(self, number: int) -> tuple[int, int]:
        """Return the number and 1, for a number alone."""
        if number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if number % 2:
            raise OddNumber(f"{number} is odd")
        return number, 1

    def leading(self, tasks: Sequence[int]) -> int:
        """Return the count of tasks before the first zero, which runs alone."""
        return next((place for place, number in enumerate(tasks) if number == 0), len(tasks))

    def together(self, tasks: Sequence[int]) -> list[tuple[int, int]]:
        """Return each number with how many ran side by side."""
        return [(self(number)[0], len(tasks)) for number in tasks]
