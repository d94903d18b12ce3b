"""What a run raises when a signal asks it to stop."""

import signal
from pathlib import Path


class Stopped(BaseException):
    """A signal asked the run to stop; not an Exception, so that nothing swallows it."""

    def __init__(self, signal_number: int):
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.run: Path | None = None
        """The folder of the run that was stopped and can go on; None if there is none."""
