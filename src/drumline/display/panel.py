"""The rows of the live dashboard: labelled lines from a state and a size."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from drumline.display.glyphs import bar, count, duration, score, sparkline
from drumline.display.state import DisplayState

LABEL_WIDTH = 10
_NARROW = 48
_MOST_WORKER_LINES = 6
_MOST_METRIC_LINES = 2
_WORDS_BESIDE = 24
"""Characters beside the strip of a role."""
_TENTH = 0.1
"""Share from which on a tenth of a percent is of no interest."""
_BUSY = 0.5
"""Share of work below which no role bounds the speed."""


class Row(NamedTuple):
    """One line: a dim label, a coloured drawing, and words."""

    label: str
    drawing: str
    words: str


def rows(state: DisplayState, width: int, height: int, *, unicode: bool = True) -> list[Row]:
    """Return the lines of one state, each at most `width` wide (labels excluded)."""
    lines = [
        *_returns(state, width, unicode),
        *_progress(state, width, unicode),
        *_speed(state, width, unicode),
    ]
    lines += _metrics(state, width, unicode)
    room = height - len(lines)
    if state.busy_roles:
        lines += _roles(state, width, max(1, room), unicode)
    else:
        lines += _workers(state, width, max(1, min(_MOST_WORKER_LINES, room)), unicode)
    return [
        Row(label, drawing[:width], words[: max(0, width - len(drawing))])
        for label, drawing, words in lines
    ]


def _returns(state: DisplayState, width: int, unicode: bool) -> list[Row]:
    newest = score(state.return_curve[-1] if state.return_curve else None)
    words = f"  {newest}" if state.return_curve else "waiting for the first update"
    curve = sparkline(state.return_curve, max(8, width - len(words) - 4), unicode=unicode)
    lines = [Row(state.words.value, curve, words)]
    said: list[str] = []
    if state.evaluation_mean is not None:
        mean, best = score(state.evaluation_mean), score(state.evaluation_best)
        said.append(f"{mean}   best {best}")
    if state.evaluating:
        said.append(state.evaluating)
    if said:
        lines.append(Row("evaluation", "", "   ".join(said)))
    if state.evaluation_info:
        info = (f"{name} {score(value)}" for name, value in state.evaluation_info.items())
        lines.append(Row("info", "", "   ".join(info)[:width]))
    return lines


def _progress(state: DisplayState, width: int, unicode: bool) -> list[Row]:
    steps = count(state.env_steps)
    drawing, words = "", steps
    if state.total_steps:
        share = min(1.0, state.env_steps / state.total_steps)
        words = f"  {share:>4.0%}  {steps} / {count(state.total_steps)}"
        drawing = bar(share, min(width - len(words), 40), unicode=unicode)
    lines = [Row(state.words.steps, drawing, words)]
    elapsed = duration(state.wall_seconds)
    lines.append(Row("time", "", f"{elapsed}   ETA {duration(state.eta_seconds)}"))
    done = f"{state.update:,}   {state.words.episodes} {state.episodes:,}"
    skipped = f"   skipped {state.update_skipped:,}" if state.update_skipped else ""
    if skipped and len(done + skipped) > width:
        lines += [Row("updates", "", done), Row("", "", skipped.strip())]
    else:
        lines.append(Row("updates", "", done + skipped))
    return lines


def _speed(state: DisplayState, width: int, unicode: bool) -> list[Row]:
    recent, whole = state.env_steps_per_second_10s, state.env_steps_per_second_run
    separator = "·" if unicode else "-"
    words = [
        f"{name} {_percent(share) if share >= _TENTH else f'{share:.1%}'}"
        for name, share in state.phases.items()
    ]
    times = [Row("time in", "", f" {separator} ".join(words))] if words else []
    if width < _NARROW:
        return [Row("steps/s", "", f"{count(recent)}   run {count(whole)}"), *times]
    both = f"{count(recent)} {state.words.steps}/s last 10 s {separator} {count(whole)} whole run"
    return [Row("speed", "", both), *times, *_machine(state, separator)]


def _machine(state: DisplayState, separator: str) -> list[Row]:
    """Return the memory and the cores that the run's processes use on this machine."""
    if not state.memory_bytes:
        return []
    cores = f"{state.cores_busy:.1f} of {state.cores} cores" if state.cores else ""
    memory = f"{state.memory_bytes / 2**30:.2f} GiB"
    return [Row("machine", "", f" {separator} ".join(filter(None, (cores, memory))))]


def _metrics(state: DisplayState, width: int, unicode: bool) -> list[Row]:
    """Return the newest update's own numbers, in two lines at most."""
    separator = " · " if unicode else ", "
    parts = [
        f"{name.removeprefix('approximate_').removesuffix('_nats').replace('_', ' ')} {value:.3g}"
        for name, value in state.metrics.items()
        if math.isfinite(value)
    ]
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(separator) + len(part) <= width:
            lines[-1] += separator + part
        elif len(lines) < _MOST_METRIC_LINES and len(part) <= width:
            lines.append(part)
    return [Row("" if i else "learning", "", line) for i, line in enumerate(lines)]


def _roles(state: DisplayState, width: int, room: int, unicode: bool) -> list[Row]:
    """Return a strip of the last seconds for each role, and the role that bounds the speed."""
    lines = []
    shown = {role: shares for role, shares in state.busy_roles.items() if shares}
    roles = {role: shares for role, shares in shown.items() if role != "driver"}
    for role, shares in roles.items():
        words = f"  {_percent(sum(shares) / len(shares)):>4}"
        if len(shares) > 1:
            words += f"  {len(shares)}: {_percent(min(shares))} to {_percent(max(shares))}"
        history = list(state.busy_history.get(role, ()))[-max(8, width - _WORDS_BESIDE) :]
        strip = sparkline(history, max(8, width - _WORDS_BESIDE), unicode=unicode, low=0, high=1)
        lines.append(Row(role[:LABEL_WIDTH], strip, words))
    lines = lines[: max(1, room - 1)]
    busiest = {role: max(shares) for role, shares in roles.items()}
    if busiest:
        role = max(busiest, key=lambda name: busiest[name])
        words = f"{role}, busy {_percent(busiest[role])} of the last second"
        if busiest[role] < _BUSY:
            words = f"driver, or waiting: {words}"
        lines.append(Row("bound by", "", words))
    if state.restarts:
        lines.append(Row("", "", f"{state.restarts} restarted"))
    return lines[:room]


def _workers(state: DisplayState, width: int, room: int, unicode: bool) -> list[Row]:
    shares = state.busy_shares
    died = f"{state.restarts} restarted" if state.restarts else ""
    if not shares:
        return [Row("workers", "", died)] if died else []
    digits = len(str(len(shares) - 1))
    columns = min(len(shares), max(1, (width + 2) // (digits + 16)))
    if math.ceil(len(shares) / columns) > room - bool(died):
        lines = _folded(shares, width, unicode)
    else:
        size = min(20, (width + 2) // columns - digits - 8)
        cells = [
            f"{i:>{digits}} {bar(share, size, unicode=unicode)} {_percent(share):>4}"
            for i, share in enumerate(shares)
        ]
        lines = [
            Row("" if i else "busy", "  ".join(cells[i : i + columns]), "")
            for i in range(0, len(cells), columns)
        ]
    if died:
        lines.append(Row("", "", died))
    return lines


def _folded(shares: Sequence[float], width: int, unicode: bool) -> list[Row]:
    least, middle, most = min(shares), statistics.median(shares), max(shares)
    strip = sparkline(shares, width, unicode=unicode, low=0.0, high=1.0)
    words = f"{len(shares)} workers: min {_percent(least)} median {_percent(middle)}"
    words += f" max {_percent(most)}"
    if len(words) > width:
        words = f"{_percent(least)} / {_percent(middle)} / {_percent(most)} of {len(shares)}"
    return [Row("busy", strip, ""), Row("", "", words)]


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "-"
