"""The live dashboard of a terminal, drawn by the driver's own thread."""

import math
import time
from collections.abc import Sequence
from typing import Any, TextIO

from drumline.display.panel import LABEL_WIDTH, rows
from drumline.display.state import DisplayState, RunTitle
from drumline.runs.safe_text import visible

_SHORTEST_INTERVAL = 0.25
_NOTE_SECONDS = 5.0
_COST_SHARE = 0.02  # the driver shares its cores with the workers


class LiveDashboard:
    """Dashboard that is redrawn at most four times a second; messages scroll away above it."""

    def __init__(self, stream: TextIO, *, unicode: bool = True):
        # Importing rich costs 0.1 s, which only a terminal needs.
        from rich.console import Console
        from rich.live import Live

        self._unicode = unicode
        self._console = Console(file=stream, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            vertical_overflow="crop",
            redirect_stdout=False,  # what environments print goes into a file
        )
        self._title: RunTitle | None = None
        self._pending: DisplayState | None = None
        self._next_draw = self._next_note = -math.inf
        self._size: Any = None
        """Columns and rows of the terminal at the last drawing."""

    def start(self, title: RunTitle) -> None:
        """Hide the cursor and begin to draw; `close` must follow, even after an exception."""
        self._title = title
        self._console.print(
            f"run folder: {visible(title.folder)}", style="dim", markup=False, soft_wrap=True
        )
        self._live.start()
        self.note("starting: environments, processes and the first update")

    def due(self) -> bool:
        """Return whether `update` would draw now, so that the state is built only then."""
        return time.perf_counter() >= self._next_draw

    def update(self, state: DisplayState) -> None:
        """Draw the state if the last drawing is old enough."""
        self._pending = state
        if time.perf_counter() >= self._next_draw:
            self._draw(state)

    def note(self, text: str) -> None:
        """Show a passing line in the place of the dashboard, until the next `update`."""
        if self._live.is_started:
            self._live.update(self._line(text), refresh=True)
        elif text and time.perf_counter() >= self._next_note:
            self._next_note = time.perf_counter() + _NOTE_SECONDS
            self._console.print(text, style="dim", markup=False)

    def message(self, text: str) -> None:
        """Print a line above the dashboard."""
        self._console.print(visible(text, lines=True), style="yellow", markup=False)

    def close(self, summary: Sequence[str] = ()) -> None:
        """Draw the last state, restore the cursor, print the summary; may be called twice."""
        try:
            if self._pending is not None and self._live.is_started:
                self._draw(self._pending)
        finally:
            self._live.stop()
        for line in summary:
            self._console.print(visible(line, lines=True), markup=False, soft_wrap=True)

    @staticmethod
    def _line(text: str) -> Any:
        from rich.text import Text

        return Text(text, style="dim")

    def _draw(self, state: DisplayState) -> None:
        start = time.perf_counter()
        if self._size not in (None, self._console.size):
            # The terminal has wrapped or cut the old drawing, so it cannot be taken back by lines.
            self._console.file.write("\x1b[H\x1b[J")
        self._size = self._console.size
        self._live.update(self._panel(state), refresh=True)
        self._pending = None
        end = time.perf_counter()
        self._next_draw = end + max(_SHORTEST_INTERVAL, (end - start) / _COST_SHARE)

    def _panel(self, state: DisplayState) -> Any:
        from rich import box
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        width, height = self._console.size
        body = Text(no_wrap=True, overflow="crop")
        lines = rows(state, width - 4 - LABEL_WIDTH - 1, height - 5, unicode=self._unicode)
        for i, line in enumerate(lines):
            body.append(f"{line.label:<{LABEL_WIDTH}} ", style="dim")
            body.append(line.drawing, style="cyan")
            body.append(line.words + ("\n" if i < len(lines) - 1 else ""))
        panel = Panel(
            body,
            box=box.ROUNDED if self._unicode else box.ASCII,
            title=Text(visible(f"{state.method} {state.env_id}"), style="bold"),
            title_align="left",
            subtitle=Text(self._subtitle(), style="dim"),
            subtitle_align="right",
            border_style="dim",
        )
        # The cursor waits on a line of its own, so that a ^C echoed there wraps no line.
        return Group(panel, "")

    def _subtitle(self) -> str:
        title = self._title
        return f"seed {title.seed}, {title.layout}" if title else ""
