"""Work of a layout's processes over time: facts about a machine, never part of the promise."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from drumline.runs.append_file import AppendFile, cut_unfinished_line
from drumline.runs.atomic_files import replace_file
from drumline.types import ProcessActivity, Span

PROCESSES_HEADER = ",".join(ProcessActivity._fields)


NOUNS = {
    "worker": ("task", "tasks"),
    "evaluator": ("evaluation episode", "evaluation episodes"),
    "executor": ("stretch of work", "stretches of work"),
    "actor": ("stretch of work", "stretches of work"),
    "learner": ("update", "updates"),
    "logical worker": ("job", "jobs"),
    "logical critic": ("job of the critic", "jobs of the critic"),
}
"""Role → what one and several of a slice's tasks are."""
EARLIER_KEPT = 8
"""Earlier sessions' timelines that stay in the folder: one has up to about 6 MB."""


def write_timeline(path: Path, spans: Sequence[Span]) -> None:
    """Write a session's spans as a Chrome trace (opens in Perfetto), one track per process.

    Called once per session. The timeline of the session before becomes `timeline-N.json`, N counted
    on; the clocks of two sessions need not be comparable. `origin_seconds` is where this session's
    first span begins.
    """
    _set_aside(path)
    origin = min((span.start for span in spans), default=0.0)
    roles = sorted({span.role for span in spans})
    tracks = sorted({(span.role, span.index) for span in spans})
    named = [
        *(_role_name(roles, role) for role in roles),
        *(_track_name(roles, *t) for t in tracks),
    ]
    events = [_event(span, roles.index(span.role), origin) for span in spans]
    written = ", ".join([*map(json.dumps, named), *events])
    replace_file(
        path,
        f'{{"displayTimeUnit": "ms", "otherData": {{"origin_seconds": {origin!r}}}, '
        f'"traceEvents": [{written}]}}'.encode(),
    )


def _set_aside(path: Path) -> None:
    """Rename the session before's timeline, unread, and remove the oldest ones."""
    pattern = re.compile(rf"{re.escape(path.stem)}-(\d+){re.escape(path.suffix)}")
    found = (pattern.fullmatch(other.name) for other in path.parent.glob(f"{path.stem}-*"))
    numbers = sorted(int(match[1]) for match in found if match)
    if path.exists():
        numbers.append(numbers[-1] + 1 if numbers else 1)
        path.replace(path.with_stem(f"{path.stem}-{numbers[-1]}"))
    for number in numbers[:-EARLIER_KEPT]:
        path.with_stem(f"{path.stem}-{number}").unlink(missing_ok=True)


def write_processes(path: Path, activity: Iterable[ProcessActivity]) -> None:
    """Append one row per process of this session, behind the last whole one."""
    if path.exists():
        cut_unfinished_line(path)  # a full disk ended an earlier session within a row
    file = AppendFile(path)
    try:
        if file.length == 0:
            file.append(f"{PROCESSES_HEADER}\n".encode())
        for row in activity:
            file.append((",".join(map(str, row)) + "\n").encode())
        file.flush()
    finally:
        file.close()


def _event(span: Span, process: int, origin: float) -> str:
    """Return the event as JSON text: one per lease, and `json.dumps` takes ten times as long."""
    start, duration = (span.start - origin) * 1e6, (span.end - span.start) * 1e6
    one, several = NOUNS.get(span.role, ("task", "tasks"))
    name = one if span.tasks == 1 else f"{span.tasks} {several}"
    return (
        f'{{"name": "{name}", "cat": "{span.role}", "ph": "X", "pid": {process}, '
        f'"tid": {span.index}, "ts": {start:.3f}, "dur": {duration:.3f}, '
        f'"args": {{"tasks": {span.tasks}}}}}'
    )


def _role_name(roles: Sequence[str], role: str) -> dict[str, Any]:
    pid = roles.index(role)
    return {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": role}}


def _track_name(roles: Sequence[str], role: str, index: int) -> dict[str, Any]:
    arguments = {"name": f"{role} {index}"}
    pid = roles.index(role)
    return {"name": "thread_name", "ph": "M", "pid": pid, "tid": index, "args": arguments}
