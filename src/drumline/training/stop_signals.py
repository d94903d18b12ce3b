"""SIGINT, SIGTERM and SIGHUP of a run: kept back while state changes, raised where it waits."""

import os
import signal
import stat
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from drumline.runtime.printed import PRINTED
from drumline.training.stopped import Stopped

SAME_WISH_SECONDS = 1.0

STOPPING = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Signals that stop a command. SIGHUP comes when a terminal or a remote session closes."""


def leave_closed_terminals() -> None:
    """Send standard output and errors to /dev/null where their terminal is gone.

    A line written there would fail, and hide that the run has been stopped and saved.
    """
    for fd in PRINTED.streams:
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(fd).st_mode) and not os.isatty(fd):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, fd)
                os.close(nowhere)


class StopSignals:
    """Turns SIGINT, SIGTERM and SIGHUP into `Stopped`, raised only while the run waits for results.

    Between two waits the strategy, the recorded rows and the counters change together; a signal
    that arrives there is kept until the next wait, and none interrupts the closing of the run. A
    second signal, more than a second after the first, is raised at once, `midway`. (Within a second
    it counts as the same: a terminal and a wrapper both pass Ctrl-C on.)
    """

    def __init__(self) -> None:
        self.state_whole = True
        """Whether learned state, rows and counters are of one update: where the run waits."""
        self._armed = False
        self._pending: int | None = None
        self._asked = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                # Ignored as a background job's may be, or not Python's to put back.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if kind is None and self._pending is not None:  # it came while the run closed
            signal.raise_signal(self._pending)

    @property
    def asked(self) -> float | None:
        """Return when a signal came (`time.monotonic`); None before any."""
        return None if self._pending is None else self._asked

    def arm(self) -> None:
        """Let signals raise from here on, where the run waits and its state is whole."""
        self.state_whole = True
        self._armed = True
        if self._pending is not None:
            self.disarm()
            raise Stopped(self._pending, self._asked)

    def look(self) -> None:
        """Raise a signal that was kept back; the caller's state is whole once this has raised."""
        if self._pending is not None:
            self.state_whole = True
            raise Stopped(self._pending, self._asked)

    def disarm(self) -> None:
        """Keep signals back from here on."""
        self._armed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminals()
        now = time.monotonic()
        again = self._pending is not None
        if again and now - self._asked < SAME_WISH_SECONDS:
            return
        self._pending, self._asked = number, now
        if self._armed or again:
            stop = Stopped(number, now)
            stop.midway = not self._armed
            self._armed = False
            raise stop
