"""Displays without cursor movement: plain lines, JSON lines, and none."""

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from drumline.display.glyphs import count, duration, score
from drumline.display.state import DisplayState, RunTitle
from drumline.runs.safe_text import visible


class ReaderGone(BrokenPipeError):
    """The reader of the output has closed the pipe, as `| head` does."""


class PlainLines:
    """One line every few seconds: for files, pipes, NO_COLOR and dumb terminals."""

    def __init__(self, stream: TextIO, interval_seconds: float = 5.0):
        self._stream = stream
        self._interval_seconds = interval_seconds
        self._next_line = self._next_note = -math.inf
        self._pending: DisplayState | None = None

    def start(self, title: RunTitle) -> None:
        """Print the run's title and its folder."""
        names = visible(f"{title.method} on {title.env_id}")
        self._print(f"{names}, seed {title.seed}, {title.layout}")
        self._print(f"run folder: {visible(title.folder)}")

    def due(self) -> bool:
        """Return whether `update` would print now, so that the state is built only then."""
        return time.perf_counter() >= self._next_line

    def update(self, state: DisplayState) -> None:
        """Print a line if the last one is old enough."""
        self._pending = state
        if self.due():
            self._line(state)

    def note(self, text: str) -> None:
        """Print a passing line if the last one is old enough."""
        if text and time.perf_counter() >= self._next_note:
            self._next_note = time.perf_counter() + self._interval_seconds
            self._print(text)

    def message(self, text: str) -> None:
        """Print a message at once."""
        self._print(text)

    def close(self, summary: Sequence[str] = ()) -> None:
        """Print the last state, unless it was printed, and the summary."""
        if self._pending is not None:
            self._line(self._pending)
        for line in summary:
            self._print(line)

    def _line(self, state: DisplayState) -> None:
        self._print(plain_line(state))
        self._pending = None
        self._next_line = time.perf_counter() + self._interval_seconds

    def _print(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        text = visible(text, lines=True)
        _print_line(text.encode(encoding, errors="replace").decode(encoding), self._stream)


class JsonLines:
    """One JSON object at the start, per update and per evaluation; numbers not finite are null."""

    def __init__(self, stream: TextIO, others: TextIO | None = None):
        self._stream = stream
        self._others = PlainLines(others if others is not None else sys.stderr)
        self._printed: tuple[int, float | None] | None = None

    def start(self, title: RunTitle) -> None:
        """Print the run's names and folder."""
        names = {"run": title.folder, "method": title.method, "env_id": title.env_id}
        self._print({"event": "start", **names, "seed": title.seed, "layout": title.layout})

    def due(self) -> bool:
        """Return True: the reader gets every update."""
        return True

    def update(self, state: DisplayState) -> None:
        """Print one object per new update, with the newest value of the return curve."""
        news = (state.update, state.evaluation_mean)
        if news == self._printed:
            return
        self._printed = news
        row: dict[str, Any] = {"event": "update", **vars(state)}
        del row["return_curve"], row["busy_history"], row["words"]
        row["episode_return_mean"] = state.return_curve[-1] if state.return_curve else None
        row["busy_shares"] = list(state.busy_shares)
        self._print(row)

    def note(self, text: str) -> None:
        """Print a passing line to the other stream."""
        self._others.note(text)

    def message(self, text: str) -> None:
        """Print to the other stream, which is standard error."""
        self._others.message(text)

    def close(self, summary: Sequence[str] = ()) -> None:
        """Print the summary to the other stream."""
        self._others.close(summary)

    def _print(self, row: dict[str, Any]) -> None:
        _print_line(json_line(row), self._stream)


class Silent:
    """No output; errors reach the caller as exceptions."""

    def start(self, title: RunTitle) -> None:
        """Do nothing."""

    def due(self) -> bool:
        """Return False: no state need be built."""
        return False

    def update(self, state: DisplayState) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""

    def close(self, summary: Sequence[str] = ()) -> None:
        """Do nothing."""


def _print_line(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError as error:
        raise ReaderGone(*error.args) from error


def plain_line(state: DisplayState) -> str:
    """Return the state of a run as one line."""
    steps = count(state.env_steps)
    if state.total_steps:
        share = min(1.0, state.env_steps / state.total_steps)
        steps += f" of {count(state.total_steps)} ({share:.0%})"
    newest = state.return_curve[-1] if state.return_curve else None
    words = state.words
    parts = [f"update {state.update}", f"{words.steps} {steps}", f"{words.value} {score(newest)}"]
    if state.evaluation_mean is not None:
        best = score(state.evaluation_best)
        parts.append(f"evaluation {score(state.evaluation_mean)} (best {best})")
    parts.append(f"{count(state.env_steps_per_second_10s)} {words.steps}/s")
    if state.eta_seconds is not None:
        parts.append(f"ETA {duration(state.eta_seconds)}")
    if state.evaluating:
        parts.append(state.evaluating)
    if state.restarts:
        parts.append(f"{state.restarts} restarts")
    return "  ".join(parts)


def json_line(row: dict[str, Any]) -> str:
    """Return an object as one line of JSON, with null for numbers that are not finite."""
    return json.dumps(_finite(row), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    value = value.item() if hasattr(value, "item") else value  # JSON does not take NumPy's scalars
    return None if isinstance(value, float) and not math.isfinite(value) else value
