"""HeldPool: a pool that is released only when its destructor cannot deadlock.

One thread of each pool fills a stock of buffers: it adds a buffer, then checks whether it must
quit. The destructor asks it to quit and takes a buffer out. If the last steps have emptied the
stock while that thread is between the two, the thread quits without adding a buffer. The destructor
then waits for ever, with the GIL held (EnvPool 1.2.5, seen on a machine with more busy processes
than cores). While the thread sleeps, its stock is full.
"""

import os
import time
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

_TASKS = Path("/proc/self/task")
_LOOK_EVERY = 0.0005
_PATIENCE = 60.0  # a machine that runs a thread so rarely: going on is the smaller risk


class HeldPool:
    """An EnvPool and its threads; it must hold the last reference to the pool."""

    def __init__(self, make: Callable[[], Any]):
        before = own_threads()
        self.pool: Any = make()
        self.threads = own_threads() - before

    def close(self) -> None:
        """Close the pool once its threads sleep; may be called twice."""
        if self.pool is not None:
            wait_until_asleep(self.threads)
            self.pool.close()
            self.pool = None

    def __del__(self) -> None:
        """Close the pool if it is still open."""
        if hasattr(self, "threads"):  # or no pool was made
            self.close()


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
