"""Progress under a notebook's cell: one output that is replaced, through the IPython that runs it.

IPython is no dependency: it is used where it has been imported and has a kernel behind it.
"""

import html
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from drumline.display.glyphs import sparkline
from drumline.display.plain import plain_line
from drumline.display.state import DisplayState, RunTitle
from drumline.runs.safe_text import visible

_INTERVAL_SECONDS = 0.5  # each drawing is a message to the browser, and is kept in its memory
_MESSAGES = 5
"""Newest messages that are shown."""


def notebook_display() -> "NotebookDisplay | None":
    """Return a display if this is a notebook's kernel; None in scripts and terminals."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    return NotebookDisplay(ipython.display.display)


class NotebookDisplay:
    """The state of a run as HTML, and as one line of text for front ends that show none."""

    def __init__(self, show: Any):
        """`show`: IPython's `display`."""
        self._show = show
        self._handle: Any = None
        self._title = ""
        self._state: DisplayState | None = None
        self._passing = ""
        self._messages: list[str] = []
        self._next_draw = -math.inf

    def start(self, title: RunTitle) -> None:
        """Show the run's title and its folder."""
        names = f"{title.method} on {title.env_id}, seed {title.seed}, {title.layout}"
        self._title = visible(f"{names}: {title.folder}")
        self._draw()

    def due(self) -> bool:
        """Return whether `update` would draw now, so that the state is built only then."""
        return time.perf_counter() >= self._next_draw

    def update(self, state: DisplayState) -> None:
        """Draw the state if the last drawing is old enough."""
        self._state, self._passing = state, ""
        if self.due():
            self._draw()

    def note(self, text: str) -> None:
        """Show a passing line until the next `update`."""
        self._passing = visible(text)
        if self.due():
            self._draw()

    def message(self, text: str) -> None:
        """Show a message at once; the newest stay."""
        self._messages = [*self._messages, visible(text, lines=True)][-_MESSAGES:]
        self._draw()

    def close(self, summary: Sequence[str] = ()) -> None:
        """Draw the last state and the summary."""
        self._passing = ""
        self._messages += [visible(line, lines=True) for line in summary]
        if self._handle is not None or self._messages:
            self._draw()

    def _draw(self) -> None:
        bundle = {"text/plain": self._text(), "text/html": self._html()}
        if self._handle is None:
            self._handle = self._show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
        self._next_draw = time.perf_counter() + _INTERVAL_SECONDS

    def _line(self) -> str:
        return self._passing or ("starting" if self._state is None else plain_line(self._state))

    def _text(self) -> str:
        return "\n".join([self._title, self._line(), *self._messages])

    def _html(self) -> str:
        bar = curve = ""
        if self._state is not None:
            if total := self._state.total_steps:
                done = min(self._state.env_steps, total)
                bar = f'<progress max="{total}" value="{done}" style="width: 20em"></progress><br>'
            curve = f"<br>{sparkline(self._state.return_curve, 60)}"
        lines = [html.escape(text) for text in (self._line(), *self._messages)]
        return (
            f'<div><small>{html.escape(self._title)}</small><br>{bar}<code style="white-space: '
            f'pre-wrap">{"<br>".join(lines)}{curve}</code></div>'
        )
