"""The line that shows how far a restore of environments, or of a strategy, has come."""

import time

from drumline.display.dashboard import Display
from drumline.display.glyphs import count

_SECONDS = 1.0


class RestoreNote:
    """Shows what was replayed at most each second; a restore of less than a second shows none."""

    def __init__(self, display: Display, what: str = "environments", unit: str = "env steps"):
        self._display = display
        self._what, self._unit = what, unit
        self._next = 0.0
        self._shown: tuple[int, int] | None = None
        self._since = 0.0

    def due(self) -> bool:
        """Return whether a second has passed since `show` was called."""
        return time.perf_counter() >= self._next

    def counted(self, replayed: int, total: int) -> None:
        """Show the count, if a second has passed."""
        if self.due():
            self.show(replayed, total)

    def show(self, replayed: int, total: int) -> None:
        """Show the count, from the second call of a restore on; without one, end the line."""
        self._next = (now := time.perf_counter()) + _SECONDS
        if replayed >= total:
            if self._shown is not None:
                self._display.note("")
            self._shown, self._since = None, 0.0
            return
        self._since = self._since or now
        if now - self._since >= _SECONDS and self._shown != (replayed, total):
            self._shown = replayed, total
            share = f"{replayed / total:.0%}"
            self._display.note(
                f"restoring {self._what}: {count(replayed)} of {count(total)} {self._unit} "
                f"replayed ({share})"
            )
