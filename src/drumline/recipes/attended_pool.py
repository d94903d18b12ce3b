"""A pool that is attended: signals stop the run only where it waits, and the display ticks."""

import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from drumline.protocols import Completed, WorkerPool
from drumline.recipes.stopped import Stopped
from drumline.types import ProcessActivity, Span

TICK_SECONDS = 0.25
SAME_WISH_SECONDS = 1.0


class StopSignals:
    """Turns SIGINT and SIGTERM into `Stopped`, raised only while the run waits for results.

    Between two waits the strategy, the recorded rows and the counters change together; a signal
    that arrives there is kept until the next wait, and none interrupts what closes the run. Who
    asks again after a second is not kept waiting: that is raised at once, `midway`. (Within a
    second it is the same wish: a terminal and a wrapper both pass Ctrl-C on.)
    """

    def __init__(self) -> None:
        self._armed = False
        self._pending: int | None = None
        self._asked = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # Ignored as a background job's may be, or not Python's to put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if kind is None and self._pending is not None:  # it came while the run closed
            signal.raise_signal(self._pending)

    def arm(self) -> None:
        """Let signals raise from here on."""
        self._armed = True
        if self._pending is not None:
            self.disarm()
            raise Stopped(self._pending)

    def disarm(self) -> None:
        """Keep signals back from here on."""
        self._armed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        again = self._pending is not None
        if again and now - self._asked < SAME_WISH_SECONDS:
            return
        self._pending, self._asked = number, now
        if self._armed or again:
            stop = Stopped(number)
            stop.midway = not self._armed
            self._armed = False
            raise stop


class AttendedPool:
    """Wraps a pool's `completed`; everything else is handed on."""

    def __init__(self, pool: WorkerPool, signals: StopSignals, tick: Callable[[WorkerPool], None]):
        self._pool = pool
        self._signals = signals
        self._tick = tick
        self.size = pool.size

    def submit(self, tasks: Sequence[Any]) -> None:
        """Queue tasks."""
        self._pool.submit(tasks)

    def completed(self, timeout: float | None = None) -> list[Completed]:
        """Return what has finished; may raise `Stopped` while it waits."""
        while True:
            self._signals.arm()
            try:
                done = self._pool.completed(TICK_SECONDS if timeout is None else timeout)
            finally:
                self._signals.disarm()
            self._tick(self._pool)
            if done or timeout is not None:
                return done

    def progressed(self) -> list[tuple[Any, int]]:
        """Return the tasks in flight that have begun and how far they have come."""
        return self._pool.progressed()

    def wake_at(self, task: Any, amount: int) -> None:
        """Let `completed` return once a task has progressed by `amount`."""
        self._pool.wake_at(task, amount)

    def withdraw(self) -> None:
        """Call back every task submitted so far."""
        self._pool.withdraw()

    def publish(self, version: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Make the arrays of `version` visible."""
        self._pool.publish(version, arrays)

    def retain(self, versions: Collection[int]) -> None:
        """Keep these versions until the next call."""
        self._pool.retain(versions)

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process."""
        return self._pool.activity()

    def timeline(self) -> list[Span]:
        """Return the latest stretches of work."""
        return self._pool.timeline()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()
