"""events.jsonl: the order in which an asynchronous run handled the ends of its jobs.

Under `--clock wall` the log allows the run to be repeated bit for bit. Under the virtual clock it
records each event's virtual time.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

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
    """Yield the logical worker of each event; an incomplete last line is left out."""
    with path.open("rb") as lines:
        for expected, line in enumerate(lines):
            if not line.endswith(b"\n"):
                return
            try:
                logged = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError as error:
                raise ValueError(f"{path}, line {expected + 1}: {error}") from error
            if logged.event != expected:
                raise ValueError(
                    f"{path}, line {expected + 1} is event {logged.event}, not {expected}: "
                    "the log has a gap"
                )
            yield logged.worker
