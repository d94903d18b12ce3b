"""Work of a layout's processes over time: facts about a machine, never part of the promise."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drumline.runs.append_file import AppendFile
from drumline.runs.atomic_files import replace_file
from drumline.runs.own_files import read_file
from drumline.types import ProcessActivity, Span


class _Earlier(msgspec.Struct):
    """Keys of an event that a later session reads."""

    cat: str
    tid: int
    ts: float
    dur: float = 0.0


PROCESSES_HEADER = ",".join(ProcessActivity._fields)


def write_timeline(path: Path, spans: Sequence[Span]) -> None:
    """Write a session's spans as a Chrome trace (opens in Perfetto), one track per process.

    Called once per session. After a resume the spans are placed after those of earlier sessions,
    because the clocks of two sessions need not be comparable; `origin_seconds` is where the latest
    session's first span begins.
    """
    events = _earlier_events(path)
    begin = max((event["ts"] + event.get("dur", 0.0) for event in events), default=0.0)
    origin = min((span.start for span in spans), default=0.0)
    roles = sorted({*_named_roles(events), *(span.role for span in spans)})
    tracks = [_track_name(roles, role, index) for role, index in _tracks(events, spans)]
    named = [_role_name(roles, role) for role in roles]
    earlier = [{**event, "pid": roles.index(event["cat"])} for event in events]
    latest = [_event(span, roles.index(span.role), begin, origin) for span in spans]
    known = [*named, *tracks, *earlier]
    written = [*([json.dumps(known)[1:-1]] if known else []), *latest]
    replace_file(
        path,
        f'{{"displayTimeUnit": "ms", "otherData": {{"origin_seconds": {origin!r}}}, '
        f'"traceEvents": [{", ".join(written)}]}}'.encode(),
    )


def write_processes(path: Path, activity: Iterable[ProcessActivity]) -> None:
    """Append one row per process of this session."""
    file = AppendFile(path)
    try:
        if file.length == 0:
            file.append(f"{PROCESSES_HEADER}\n".encode())
        for row in activity:
            file.append((",".join(map(str, row)) + "\n").encode())
        file.flush()
    finally:
        file.close()


def _event(span: Span, process: int, begin: float, origin: float) -> str:
    """Return the event as JSON text: one per lease, and `json.dumps` takes ten times as long."""
    start, duration = begin + (span.start - origin) * 1e6, (span.end - span.start) * 1e6
    return (
        f'{{"name": "{span.tasks} tasks", "cat": "{span.role}", "ph": "X", "pid": {process}, '
        f'"tid": {span.index}, "ts": {start:.3f}, "dur": {duration:.3f}, '
        f'"args": {{"tasks": {span.tasks}}}}}'
    )


def _earlier_events(path: Path) -> list[dict[str, Any]]:
    try:
        events = json.loads(read_file(path))["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        msgspec.convert(spans, list[_Earlier])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError):
        return []  # a damaged timeline must not fail a run, so it starts anew
    return spans


def _named_roles(events: Sequence[dict[str, Any]]) -> set[str]:
    return {event["cat"] for event in events}


def _tracks(events: Sequence[dict[str, Any]], spans: Sequence[Span]) -> list[tuple[str, int]]:
    earlier = {(event["cat"], event["tid"]) for event in events}
    return sorted({*earlier, *((span.role, span.index) for span in spans)})


def _role_name(roles: Sequence[str], role: str) -> dict[str, Any]:
    pid = roles.index(role)
    return {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": role}}


def _track_name(roles: Sequence[str], role: str, index: int) -> dict[str, Any]:
    arguments = {"name": f"{role} {index}"}
    pid = roles.index(role)
    return {"name": "thread_name", "ph": "M", "pid": pid, "tid": index, "args": arguments}
