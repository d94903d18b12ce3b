"""Stand-ins for `os`, `select`, `selectors`, `subprocess`, `time`, `threading` over a World.

They have what Drumline's runtime calls, with the kernel's semantics: pipes have a capacity, reads
and writes may be short, bytes arrive late, a pipe ends with its last writer, descriptors are closed
with their process. What they do not have is the real module's.
"""

import errno
import io
import os
import select
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty
from types import SimpleNamespace
from typing import Any

from universe.world import FIRST_DESCRIPTOR, Exited, Process, World, close_quietly


class Pipe:
    """Bytes between processes."""

    def __init__(self, world: World):
        self.world = world
        self.parts: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.readers = self.writers = 0

    @property
    def visible(self) -> bool:
        """Whether there are bytes that have arrived."""
        return bool(self.parts) and self.parts[0][0] <= self.world.now


class End:
    """A descriptor of a pipe."""

    def __init__(self, pipe: Pipe, *, reads: bool):
        self.pipe = pipe
        self.reads = reads
        self.blocking = True
        if reads:
            pipe.readers += 1
        else:
            pipe.writers += 1

    @property
    def under_way(self) -> bool:
        """Whether bytes are sent and have not arrived."""
        return self.reads and bool(self.pipe.parts) and not self.pipe.visible

    @property
    def readable(self) -> bool:
        """Whether a read would not wait."""
        return self.reads and (self.pipe.visible or (not self.pipe.parts and not self.pipe.writers))

    @property
    def writable(self) -> bool:
        """Whether a write would not wait."""
        full = self.pipe.size >= self.pipe.world.capacity
        return not self.reads and (not full or not self.pipe.readers)

    @property
    def hung_up(self) -> bool:
        """Whether the other side has been closed."""
        return self.reads and not self.pipe.writers

    def copy(self) -> "End":
        """Return another descriptor of the same end."""
        other = End(self.pipe, reads=self.reads)
        other.blocking = self.blocking
        return other

    def close(self) -> None:
        """Close it."""
        if self.reads:
            self.pipe.readers -= 1
        else:
            self.pipe.writers -= 1


class Counter:
    """An eventfd."""

    readable = property(lambda self: self.shared.count > 0)
    writable = True
    hung_up = under_way = False

    def __init__(self, shared: Any = None):
        self.shared = SimpleNamespace(count=0) if shared is None else shared

    def copy(self) -> "Counter":
        """Return another descriptor of the same counter."""
        return Counter(self.shared)

    def close(self) -> None:
        """Close it."""


class RealFile:
    """A real descriptor that a simulated child inherits under another process's number."""

    readable = writable = True
    hung_up = under_way = False

    def __init__(self, number: int):
        self.number = os.dup(number)

    def copy(self) -> "RealFile":
        """Return another descriptor of the same file."""
        return RealFile(self.number)

    def close(self) -> None:
        """Close it."""
        close_quietly(self.number)


class SimOS:
    """`os` of the process that runs now."""

    EFD_NONBLOCK = EFD_CLOEXEC = 0

    def __init__(self, world: World, synced: Callable[[int], None]):
        self._world = world
        self._synced = synced

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def _table(self) -> dict[int, Any]:
        return self._world.process.descriptors if self._world.inside else {}

    def _add(self, *descriptors: Any) -> tuple[int, ...]:
        table, numbers = self._table, []
        number = FIRST_DESCRIPTOR
        for descriptor in descriptors:
            while number in table:
                number += 1
            table[number] = descriptor
            numbers.append(number)
        return tuple(numbers)

    def pipe(self) -> tuple[int, ...]:
        """Return two descriptors."""
        pipe = Pipe(self._world)
        return self._add(End(pipe, reads=True), End(pipe, reads=False))

    def eventfd(self, count: int, flags: int = 0) -> int:
        """Return a counter's descriptor."""
        return self._add(Counter())[0]

    def eventfd_write(self, fd: int, number: int) -> None:
        """Add to a counter."""
        self._world.call("bell")
        self._table[fd].shared.count += number

    def eventfd_read(self, fd: int) -> int:
        """Take a counter's number."""
        shared = self._table[fd].shared
        if not shared.count:
            raise BlockingIOError
        count, shared.count = shared.count, 0
        self._world.call("bell taken")
        return count

    def read(self, fd: int, most: int) -> bytes:
        """Read what has arrived, perhaps less."""
        world, end = self._world, self._table.get(fd)
        if not isinstance(end, End):
            return os.read(self.real(fd), most)
        world.call("read")
        if not end.readable:
            if not end.blocking:
                raise BlockingIOError
            world.block(lambda: end.readable)
        pipe = end.pipe
        if not pipe.parts:
            return b""
        when, part = pipe.parts.popleft()
        count = min(len(part), most)
        if count > 1 and world.rng.random() < 0.2:
            count = world.rng.randint(1, count)
        if count < len(part):
            pipe.parts.appendleft((when, part[count:]))
        pipe.size -= count
        return part[:count]

    def write(self, fd: int, data: Any) -> int:
        """Write what fits, perhaps less."""
        world, end = self._world, self._table.get(fd)
        if not isinstance(end, End):
            return os.write(self.real(fd), data)
        world.call("write")
        if not end.writable:
            if not end.blocking:
                raise BlockingIOError
            world.block(lambda: end.writable)
        pipe = end.pipe
        if not pipe.readers:
            raise BrokenPipeError
        count = min(len(data), world.capacity - pipe.size)
        late = world.rng.choice([0.0, 0.0, 1e-4, 2e-2])
        last = pipe.parts[-1][0] if pipe.parts else 0.0
        pipe.parts.append((max(last, world.now + late), bytes(data[:count])))
        pipe.size += count
        return count

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        descriptor = self._table.pop(fd, None)
        if descriptor is None:
            if (
                self._world.inside and fd in self._world.process.files
            ):  # its number may be another file's afterwards
                self._world.process.files.remove(fd)
            os.close(fd)
        else:
            descriptor.close()

    def real(self, fd: int) -> int:
        """Return the real descriptor behind a number of this process."""
        held = self._table.get(fd)
        return held.number if isinstance(held, RealFile) else fd

    def set_blocking(self, fd: int, blocking: bool) -> None:
        """Let calls wait, or not."""
        self._table[fd].blocking = blocking

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        """Do nothing: only what is passed is inherited."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read a real file."""
        return os.pread(self.real(fd), size, offset)

    def fstat(self, fd: int) -> Any:
        """Return a real file's facts."""
        return os.fstat(self.real(fd))

    def getpid(self) -> int:
        """Return this process's number."""
        return self._world.process.pid if self._world.inside else os.getpid()

    def getppid(self) -> int:
        """Return the parent's number."""
        parent = self._world.process.parent
        return 1 if parent is None else parent.pid

    def killpg(self, pid: int, number: int) -> None:
        """Kill a child's group."""
        child = self._child(pid)
        if not child.alive:
            raise ProcessLookupError
        self._world.end(child, -number)

    kill = killpg

    def _child(self, pid: int) -> Process:
        return next(p for p in self._world.processes if p.pid == pid)

    def open(self, path: Any, flags: int, *mode: int) -> int:
        """Open a real file; making one needs room."""
        if self._world.inside and flags & os.O_CREAT and not os.path.exists(path):
            self._world.call("file made")
            if self._world.rng.random() < 0.3:
                self._world.disk_fault("file made")
        return os.open(path, flags, *mode)

    def fdopen(self, fd: int, mode: str, buffering: int = -1, **more: Any) -> Any:
        """Return a file whose writes reach the simulated disk."""
        if not self._world.inside or not set(mode) & set("wa"):
            return os.fdopen(fd, mode, buffering, **more)
        raw = _RawFile(self._world, fd)
        return raw if buffering == 0 else io.BufferedWriter(raw)

    def fsync(self, fd: int) -> None:
        """Note what is on the simulated disk; a point before and after."""
        self._world.call("before fsync")
        if self._world.rng.random() < 0.3:  # most file systems take the room with the write
            self._world.disk_fault("fsync")
        self._synced(fd)
        self._world.call("after fsync")


class _RawFile(io.RawIOBase):
    """A real file, written in one process on a disk that may be full."""

    def __init__(self, world: World, fd: int):
        self._world = world
        self._fd = fd

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        """Write what there is room for."""
        world, data = self._world, bytes(data)
        if not world.inside:
            return len(data)  # a dead process's buffer, given up by the interpreter
        world.call("file written")
        try:
            world.disk_fault("file written")
        except OSError as error:
            room = world.rng.randrange(len(data)) if data and world.rng.random() < 0.5 else 0
            if error.errno != errno.ENOSPC or not room:
                raise
            return os.write(self._fd, data[:room])
        if len(data) > 1 and world.rng.random() < 0.05:
            data = data[: world.rng.randint(1, len(data))]
        return os.write(self._fd, data)

    def close(self) -> None:
        if not self.closed and self._world.inside:
            os.close(self._fd)
        super().close()


class SimPopen:
    """`subprocess.Popen` of a module of ours."""

    world: World
    mains: Mapping[str, Callable[[], None]]
    system: SimOS

    def __init__(self, command: Sequence[str], *, pass_fds: Iterable[int], **_: Any):
        world = self.world
        world.call("before spawn")
        module, *arguments = command[5:]  # after the child's program and the place of Drumline
        parent = world.process
        inherited: dict[int, Any] = {}
        for fd in pass_fds:
            held = parent.descriptors.get(fd)
            inherited[fd] = RealFile(fd) if held is None else held.copy()
        child = world.spawn(self.mains[module], ["-c", *arguments], parent)
        child.descriptors.update(inherited)
        self._child = child
        self.pid = child.pid
        self.returncode: int | None = None
        world.call("after spawn")

    def poll(self) -> int | None:
        """Return the code of a child that has ended."""
        self.world.call("child looked at")
        self.returncode = self._child.status
        return self.returncode

    def wait(self) -> int:
        """Wait for the end; return the code."""
        self.world.block(lambda: not self._child.alive)
        assert self._child.status is not None
        self.returncode = self._child.status
        return self.returncode


class SimTime:
    """`time` of the world."""

    def __init__(self, world: World):
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def perf_counter(self) -> float:
        """Return the seconds of the world."""
        return self._world.now if self._world.inside else time.perf_counter()

    monotonic = process_time = perf_counter

    def perf_counter_ns(self) -> int:
        """Return the nanoseconds of the world."""
        return int(self.perf_counter() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        self._world.block(lambda: False, seconds)


class SimPoll:
    """`select.poll`."""

    def __init__(self, world: World):
        self._world = world
        self._process = world.process
        self._fds: dict[int, int] = {}

    def register(self, fd: int, mask: int) -> None:
        """Watch a descriptor."""
        self._fds[fd] = mask

    def unregister(self, fd: int) -> None:
        """Watch it no more."""
        del self._fds[fd]

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        """Return descriptors with their events."""
        world = self._world
        world.call("poll")
        seconds = None if milliseconds is None else milliseconds / 1000.0
        if not self._found() and seconds != 0.0:
            world.block(lambda: bool(self._found()), seconds)
        found = self._found()
        world.rng.shuffle(found)
        return found

    def _found(self) -> list[tuple[int, int]]:
        table = self._process.descriptors
        return [(fd, select.POLLIN) for fd in self._fds if fd in table and ready(table[fd])]


def ready(descriptor: Any) -> bool:
    """Whether a poll for reading would tell of a descriptor."""
    return descriptor.readable or descriptor.hung_up


class SimSelector:
    """`selectors.DefaultSelector`."""

    world: World

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fd: int, events: int, data: Any = None) -> None:
        """Watch a descriptor."""
        assert fd not in self._keys
        self._keys[fd] = selectors.SelectorKey(fd, fd, events, data)

    def unregister(self, fd: int) -> None:
        """Watch it no more."""
        del self._keys[fd]

    def get_map(self) -> Mapping[int, selectors.SelectorKey]:
        """Return the keys by descriptor."""
        return self._keys

    def select(self, seconds: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the keys that are ready, in any order."""
        world = self.world
        world.call("select")
        process = world.process

        def found() -> list[tuple[selectors.SelectorKey, int]]:
            table = process.descriptors
            return [
                (key, key.events)
                for key in self._keys.values()
                if (
                    ready(table[key.fd])
                    if key.events == selectors.EVENT_READ
                    else table[key.fd].writable
                )
            ]

        if not found() and (seconds is None or seconds > 0.0):
            world.block(lambda: bool(found()), seconds)
        keys = found()
        world.rng.shuffle(keys)
        return keys

    def close(self) -> None:
        """Forget all."""
        self._keys.clear()


def _tells(descriptor: Any, events: int) -> bool:
    return ready(descriptor) if events == selectors.EVENT_READ else descriptor.writable


class SimSelect:
    """`select`."""

    POLLIN, POLLHUP = select.POLLIN, select.POLLHUP

    def __init__(self, world: World):
        self._world = world

    def poll(self) -> SimPoll:
        """Return a poll object."""
        return SimPoll(self._world)

    def select(
        self, reading: Iterable[int], writing: object, other: object, seconds: float | None
    ) -> tuple[list[int], list[int], list[int]]:
        """Return the descriptors that can be read."""
        poll = self.poll()
        for fd in reading:
            poll.register(fd, select.POLLIN)
        found = poll.poll(None if seconds is None else seconds * 1000.0)
        return [fd for fd, _ in found], [], []


class SimQueue:
    """`queue.SimpleQueue`."""

    world: World

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """Add an item."""
        self._items.append(item)
        self.world.point("queued")

    def get_nowait(self) -> Any:
        """Take an item, or raise Empty."""
        if not self._items:
            raise Empty
        return self._items.popleft()

    def get(self) -> Any:
        """Wait for an item."""
        self.world.block(lambda: bool(self._items))
        return self._items.popleft()


class SimThreading:
    """`threading` of the recorder: a thread is a greenlet of its process."""

    def __init__(self, world: World):
        self.Event = type("Event", (_Event,), {"world": world})
        self.Semaphore = type("Semaphore", (_Semaphore,), {"world": world})
        self.Thread = type("Thread", (_Thread,), {"world": world})

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class _Event:
    world: World

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set it."""
        self._set = True

    def wait(self) -> None:
        """Wait until it is set."""
        self.world.block(lambda: self._set)


class _Semaphore:
    world: World

    def __init__(self, count: int):
        self._count = count

    def acquire(self) -> None:
        """Take one, waiting for it."""
        self.world.block(lambda: self._count > 0)
        self._count -= 1

    def release(self) -> None:
        """Give one back."""
        self._count += 1


class _Thread:
    world: World

    def __init__(self, target: Callable[[], None], **_: Any):
        self._target = target
        self._task: Any = None

    def start(self) -> None:
        """Start it."""
        self._task = self.world.thread(self.world.process, self._target)

    def join(self) -> None:
        """Wait for its end."""
        self.world.block(lambda: self._task.done)


def leave(code: int) -> None:
    """End this process."""
    raise Exited(code)


class SimSys:
    """`sys` of a child."""

    def __init__(self, world: World):
        self._world = world
        self.path = list(sys.path)

    @property
    def argv(self) -> list[str]:
        """Return this process's arguments."""
        return self._world.process.argv

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)
