"""HeldPool: a pool that is released only when its destructor cannot deadlock.

One thread of each pool fills a stock of buffers: it adds a buffer, then checks whether it must
quit. The destructor asks it to quit and takes a buffer out. If the last steps have emptied the
stock while that thread is between the two, the thread quits without adding a buffer. The destructor
then waits for ever, with the GIL held (EnvPool 1.2.5, seen on a machine with more busy processes
than cores). While the thread sleeps, its stock is full.
"""

import os
import time
import weakref
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

_TASKS = Path("/proc/self/task")
_LOOK_EVERY = 0.0005
_PATIENCE = 60.0  # a machine that runs a thread so rarely: going on is the smaller risk


class HeldPool:
    """An EnvPool and its threads; it must hold the last reference to the pool.

    A pool that is still open is closed when this goes, and at the latest before the interpreter
    begins to end: later, the modules that waiting needs are gone.
    """

    def __init__(self, make: Callable[[], Any]):
        before = own_threads()
        self.pool: Any = make()
        self.threads = own_threads() - before
        self._closed = weakref.finalize(self, _close, self.pool, self.threads)

    def close(self) -> None:
        """Close the pool once its threads sleep; may be called twice."""
        self._closed()
        self.pool = None


def _close(pool: Any, threads: Set[int]) -> None:
    wait_until_asleep(threads)
    pool.close()


def own_threads() -> frozenset[int]:
    """Return the ids of this process's threads, native ones included."""
    return frozenset(map(int, os.listdir(_TASKS)))


def wait_until_asleep(threads: Set[int], seconds: float = _PATIENCE) -> bool:
    """Wait until all of these threads sleep or have ended; False after `timeout` seconds."""
    deadline = time.monotonic() + seconds
    while any(_awake(thread) for thread in threads):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _awake(thread: int) -> bool:
    try:
        fields = (_TASKS / str(thread) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields.rpartition(")")[2].split()[0] != "S"  # the name before it may hold any character
