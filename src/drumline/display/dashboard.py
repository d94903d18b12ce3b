"""The choice of a run's display."""

from collections.abc import Mapping
from typing import TextIO

from drumline.display.live import LiveDashboard
from drumline.display.notebook import NotebookDisplay
from drumline.display.plain import JsonLines, PlainLines, Silent

Display = LiveDashboard | NotebookDisplay | PlainLines | JsonLines | Silent
"""Siblings with `start`, `due`, `update`, `note`, `message` and `close`."""


def choose_display(
    stream: TextIO, *, quiet: bool, json: bool, environ: Mapping[str, str]
) -> Display:
    """Return JSON lines or no display if asked for, else the best that the stream can show.

    NO_COLOR (no-color.org: set and not empty) and TERM=dumb mean plain lines.
    """
    if json:
        return JsonLines(stream)
    if quiet:
        return Silent()
    plain = environ.get("NO_COLOR") or environ.get("TERM") in ("dumb", "unknown")
    if plain or not stream.isatty():
        return PlainLines(stream)
    return LiveDashboard(stream, unicode=_shows_blocks(stream))


def _shows_blocks(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")
