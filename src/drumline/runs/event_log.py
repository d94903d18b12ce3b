"""events.jsonl: the order in which an asynchronous run handled the ends of its jobs.

With the log a run by the wall clock can be done again to the same bits; under the virtual clock it
says what happened when.
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
    """Yield the logical worker of each event; a last line that was cut short does not count."""
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
