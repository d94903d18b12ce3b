"""events.jsonl: the order in which an asynchronous run handled the ends of its jobs.

Under `--clock wall` the log allows the run to be repeated bit for bit. Under the virtual clock it
records each event's virtual time.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from drumline.runs.append_file import whole_lines
from drumline.tasks import Event


class _Line(msgspec.Struct):
    event: int
    worker: int
    start: int
    end: int
    env_steps: int


def event_line(event: Event) -> bytes:
    """Return one event as a line; virtual times are in nanoseconds."""
    line = _Line(event.index, event.worker, event.start, event.end, event.env_steps)
    return msgspec.json.encode(line) + b"\n"


def logged_workers(path: Path) -> Iterator[int]:
    """Return the logical workers of the events, one line in memory at a time.

    The whole log is checked before the first. An incomplete last line is left out.
    """
    for _ in _workers(path):
        pass
    return _workers(path)


def _workers(path: Path) -> Iterator[int]:
    for number, line in enumerate(whole_lines(path)):
        yield _worker(path, number, line)


def _worker(path: Path, expected: int, line: bytes) -> int:
    try:
        logged = msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}, line {expected + 1}: {error}") from error
    if logged.event != expected:
        raise ValueError(
            f"{path}, line {expected + 1} is event {logged.event}, not {expected}: "
            "the log has a gap"
        )
    return logged.worker
