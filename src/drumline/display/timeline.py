"""Timeline of a run's latest session: what each process did when, and what it waited for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drumline.runs.folder import RunError, RunFolder
from drumline.runs.own_files import read_file, size_of
from drumline.runs.timeline import NOUNS

MOST_SLICES = 30_000
"""Slices that a page shows; with more, those with short gaps between them are drawn as one."""
MOST_BYTES = 64 << 20
"""Size of the largest timeline that is read; a session's has about 6 MiB."""
MOST_TRACKS = 4096
"""Processes that a page shows; a timeline with more is left out."""
MOST_ROLES = 16
MOST_CELLS = 1 << 26
"""Largest product of tracks and slices, of which each takes `shares` about four bytes."""
LONGEST_SECONDS = 1e9
"""Largest time in a timeline; a larger one is damage."""
LOGICAL = "logical "
"""Beginning of the roles that show jobs by their place in virtual time, and no process."""
_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_FROM_THE_START = ("worker", "actor", "executor")
"""Roles that work from a session's start; a learner or an evaluator begins when it has work."""
_ORDER = ("learner", "worker", "actor", "executor", "evaluator")


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of one process, in order: seconds since the session's first slice."""

    role: str
    index: int
    begins: np.ndarray
    """`[n]`, seconds."""
    ends: np.ndarray
    """`[n]`, seconds."""
    tasks: np.ndarray
    """`[n]`"""


@dataclass(frozen=True)
class Share:
    """Parts of a role's time, each as a mean over its processes; they add up to 1."""

    role: str
    processes: int
    busy: float
    waits: dict[str, float]
    """The role that worked meanwhile → share of the time; "driver": no other process worked."""


def read_tracks(folder: RunFolder) -> list[Track]:
    """Return the tracks of the latest session; none without a timeline within the limits above.

    Raises RunError for a damaged file.
    """
    path = folder.timeline_json
    size = size_of(path)
    if size is None or size > MOST_BYTES:
        return []
    try:
        events = _slices(path)
    except _DAMAGE as error:
        raise RunError(f"{path} is damaged: {error}") from error
    tracks: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for role, index, begin, duration, tasks in events:
        tracks.setdefault((role, index), []).append((begin, begin + duration, tasks))
    roles = {role for role, _ in tracks}
    many = len(tracks) > MOST_TRACKS or len(roles) > MOST_ROLES
    if many or len(tracks) * len(events) > MOST_CELLS:
        return []
    return [
        Track(role, index, *(np.array(column) for column in zip(*sorted(rows), strict=True)))
        for (role, index), rows in sorted(tracks.items(), key=_place)
    ]


def _slices(path: Path) -> list[tuple[str, int, float, float, int]]:
    found = []
    for event in json.loads(read_file(path))["traceEvents"]:
        if event["ph"] != "X":
            continue
        begin, duration = event["ts"] / 1e6, event["dur"] / 1e6
        if not (abs(begin) <= LONGEST_SECONDS and 0 <= duration <= LONGEST_SECONDS):  # or NaN
            raise ValueError(f"a slice begins at {begin} and lasts {duration}")
        found.append(
            (str(event["cat"]), int(event["tid"]), begin, duration, int(event["args"]["tasks"]))
        )
    return found


def _place(item: tuple[tuple[str, int], Any]) -> tuple[int, str, int]:
    role, index = item[0]
    return (_ORDER.index(role) if role in _ORDER else len(_ORDER), role, index)


def judged(tracks: Sequence[Track]) -> tuple[float, float]:
    """Return the begin and the end, in seconds, of the time that `shares` judges.

    A process keeps its latest slices alone, so busy ones show less of a long session than others:
    the time begins when every process that works from the start has its first slice.
    """
    real = [track for track in tracks if not track.role.startswith(LOGICAL)]
    if not real:
        return 0.0, 0.0
    end = float(max(track.ends.max() for track in real))
    begins = [float(track.begins[0]) for track in real if track.role in _FROM_THE_START]
    return max(begins, default=float(min(track.begins[0] for track in real))), end


def shares(tracks: Sequence[Track]) -> list[Share]:
    """Return each role's parts of the time `judged`: working, and waiting while others worked.

    A process that waits while another of its role works counts for its own role; else for the
    first role that works, in the order learner, worker, actor, executor, evaluator; else for the
    driver, which has no slices of its own.
    """
    begin, _ = judged(tracks)
    real = [_since(begin, track) for track in tracks if not track.role.startswith(LOGICAL)]
    edges = np.unique(np.concatenate([np.r_[t.begins, t.ends] for t in real] or [np.zeros(0)]))
    if len(edges) < 2:
        return []
    lengths = np.diff(edges)
    total = float(lengths.sum())
    busy = [_busy(track, edges) for track in real]
    roles = list(dict.fromkeys(track.role for track in real))
    working = {
        role: np.sum([b for b, t in zip(busy, real, strict=True) if t.role == role], axis=0)
        for role in roles
    }
    found = []
    for role in roles:
        own = [b for b, t in zip(busy, real, strict=True) if t.role == role]
        waits: dict[str, float] = {}
        for mask in own:
            left = ~mask
            for other in (role, *(r for r in roles if r != role)):
                part = left & (working[other] > 0)
                waits[other] = waits.get(other, 0.0) + float(lengths[part].sum())
                left &= ~part
            waits["driver"] = waits.get("driver", 0.0) + float(lengths[left].sum())
        scale = total * len(own)
        shared = {name: seconds / scale for name, seconds in waits.items() if seconds > 0}
        worked = sum(float(lengths[mask].sum()) for mask in own) / scale
        found.append(Share(role, len(own), worked, shared))
    return found


def _since(begin: float, track: Track) -> Track:
    """Return a track whose earlier slices have no length."""
    return replace(
        track, begins=np.maximum(track.begins, begin), ends=np.maximum(track.ends, begin)
    )


def _busy(track: Track, edges: np.ndarray) -> np.ndarray:
    """Return for each stretch between two edges whether the process works in it."""
    change = np.zeros(len(edges), int)
    np.add.at(change, np.searchsorted(edges, track.begins), 1)
    np.add.at(change, np.searchsorted(edges, track.ends), -1)
    return np.cumsum(change)[:-1] > 0


def bottleneck(found: Sequence[Share]) -> str:
    """Return a sentence about the role that bounds the speed; empty without slices."""
    trained = [share for share in found if share.role != "evaluator"]
    if not trained:
        return ""
    most = max(trained, key=lambda share: share.busy)
    driver = max(share.waits.get("driver", 0.0) for share in trained)
    if driver > most.busy:
        return f"The driver bounds the speed: {driver:.0%} of the time no other process worked."
    if most.processes == 1:
        return f"The {most.role} bounds the speed: it worked {most.busy:.0%} of the time."
    return f"The {most.role}s bound the speed: they worked {most.busy:.0%} of the time."


def drawn(tracks: Sequence[Track], most: int = MOST_SLICES) -> list[dict[str, Any]]:
    """Return what a page draws of each track: its name, its noun, and slices in microseconds.

    A slice is (begin − end of the one before, length, tasks), as whole numbers.
    """
    gap = 0.0
    while True:
        thin = [_joined(track, gap) for track in tracks]
        if sum(len(begins) for begins, _, _ in thin) <= most:
            break
        gap = max(2 * gap, 1e-5)
    found = []
    for track, (begins, ends, tasks) in zip(tracks, thin, strict=True):
        begin, end = np.round(begins * 1e6).astype(int), np.round(ends * 1e6).astype(int)
        steps = np.diff(end, prepend=0) - (end - begin)
        found.append(
            {
                "name": f"{track.role} {track.index}",
                "noun": NOUNS.get(track.role, ("task", "tasks")),
                "steps": steps.tolist(),
                "lengths": (end - begin).tolist(),
                "tasks": tasks.tolist(),
            }
        )
    return found


def _joined(track: Track, gap: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return begins, ends and tasks where slices less than `gap` seconds apart are one."""
    first = np.r_[True, track.begins[1:] - track.ends[:-1] > gap] if gap else None
    if first is None:
        return track.begins, track.ends, track.tasks
    places = np.flatnonzero(first)
    return (
        track.begins[places],
        np.maximum.reduceat(track.ends, places),
        np.add.reduceat(track.tasks, places),
    )
