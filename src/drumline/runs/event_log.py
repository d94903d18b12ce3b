"""events.jsonl: the order in which an asynchronous run handled the ends of its jobs.

Under `--clock wall` the log allows the run to be repeated bit for bit. Under the virtual clock it
records each event's virtual time.
"""

from pathlib import Path

import msgspec

from drumline.runs.own_files import read_file
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


def logged_workers(path: Path) -> list[int]:
    """Return the logical worker of each event; an incomplete last line is left out.

    The file is read at once: a generator would hold it open until it is garbage-collected.
    """
    whole_lines = read_file(path).split(b"\n")[:-1]
    return [_worker(path, number, line) for number, line in enumerate(whole_lines)]


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
