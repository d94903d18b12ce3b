"""A pool that is let go when that is safe: EnvPool's destructor may wait for a thread that left.

One thread of each pool fills a stock of buffers: it puts one in, then looks whether it is to quit.
The destructor tells it to and takes a buffer out. If the last steps have emptied the stock while
that thread stood between the two, it quits, nothing is put in again, and the destructor waits for
ever with the GIL held (EnvPool 1.2.5, seen on a machine with more to do than cores). While the
thread sleeps, its stock is full.
"""

import os
import time
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

_TASKS = Path("/proc/self/task")
_LOOK_EVERY = 0.0005
_PATIENCE = 60.0  # a machine that gives a thread no turn for so long: going on is the lesser risk


class HeldPool:
    """An EnvPool and the threads that came with it; the last to hold it must be this."""

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
        """Close what nobody closed."""
        if hasattr(self, "threads"):  # or no pool was made
            self.close()


def own_threads() -> frozenset[int]:
    """Return the numbers of this process's threads, those that Python does not know included."""
    return frozenset(map(int, os.listdir(_TASKS)))


def wait_until_asleep(threads: Set[int], seconds: float = _PATIENCE) -> bool:
    """Return as soon as all of these threads sleep or are gone; False if they did not in time."""
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
    return fields.rpartition(")")[2].split()[0] != "S"  # the name before it may hold anything
