"""`Stopped`: raised in a run when a signal asks it to stop."""

import signal
import time
from typing import TYPE_CHECKING

from drumline.errors import ImpureEnvironment, Travels

if TYPE_CHECKING:
    from drumline.runs.folder import RunFolder


class Stopped(Travels):
    """A signal asked the run to stop; not an Exception, so that nothing swallows it."""

    def __init__(self, signal_number: int, asked: float | None = None):
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.asked = time.monotonic() if asked is None else asked
        """Time of the signal, by `time.monotonic`."""
        self.midway = False
        """Whether it came in the middle of a change: the state in memory is not whole then."""
        self.run: "RunFolder | None" = None
        """The run that was stopped and can go on; None if there is none."""


def leaves_whole_state(error: BaseException) -> bool:
    """Return whether a run's state after `error` is whole, so that a resume can start from it.

    It is not after a failed rehearsal: a resumed run must rehearse the environment again.
    """
    midway = isinstance(error, Stopped) and error.midway
    return not midway and not isinstance(error, ImpureEnvironment)
