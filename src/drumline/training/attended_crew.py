"""A crew that is attended: signals stop the run only where it waits, and the display ticks."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from drumline.crew_protocols import Crew
from drumline.training.attended_pool import TICK_SECONDS
from drumline.training.stop_signals import StopSignals


class AttendedCrew:
    """A crew whose waits end at a signal and refresh the display; it wraps another crew."""

    def __init__(self, crew: Crew, signals: StopSignals, tick: Callable[[], None]):
        self._crew = crew
        self._signals = signals
        self._tick = tick
        self.exchange = crew.exchange
        self.publish = crew.publish
        self.published = crew.published
        self.look = crew.look
        self.restoring = crew.restoring
        self.activity = crew.activity
        self.timeline = crew.timeline
        self.close = crew.close

    def wait(self, until: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait, and refresh the display now and then; may raise `Stopped`."""
        while True:
            with _armed(self._signals):
                reached = self._crew.wait(until, TICK_SECONDS if timeout is None else timeout)
            self._tick()
            self._signals.state_whole = not (reached or timeout is not None)
            if reached or timeout is not None:
                return reached


@contextmanager
def _armed(signals: StopSignals) -> Generator[None]:
    signals.arm()
    try:
        yield
    finally:
        signals.disarm()
