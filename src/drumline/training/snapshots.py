"""A steady-state schedule's snapshot as tensors of a checkpoint, and back."""

from typing import Any

import numpy as np

from drumline.tasks import (
    Evaluate,
    EvaluateMean,
    GradientJob,
    Job,
    Live,
    Snapshot,
    Started,
    TrainCritics,
)
from drumline.types import State

_FLIGHTS, _VERSION = "flights", "version/"
_NONE = -1
_LIVE, _EVALUATE, _TRAIN, _CALL = range(4)
_COLUMNS = 15


def snapshot_state(snapshot: Snapshot) -> State:
    """Return jobs in flight as one table of whole numbers, and the arrays that they name."""
    rows = [_row(started) for started in snapshot.started]
    tensors = {_FLIGHTS: np.array(rows, np.int64).reshape(len(rows), _COLUMNS)}
    named = {started.job.version for started in snapshot.started}
    for version in sorted(named):
        for name, array in snapshot.versions[version].items():
            tensors[f"{_VERSION}{version}/{name}"] = array
    return State(tensors, {"events": snapshot.events, "virtual_now": snapshot.now})


def snapshot_from(state: State) -> Snapshot:
    """Return the snapshot that a state describes."""
    events, now = (int(state.counter(name)) for name in ("events", "virtual_now"))
    started = tuple(_started(row) for row in state.tensor(_FLIGHTS).tolist())
    versions: dict[int, dict[str, np.ndarray]] = {flight.job.version: {} for flight in started}
    for key, array in state.tensors.items():
        if key.startswith(_VERSION):
            version, name = key.removeprefix(_VERSION).split("/", 1)
            versions[int(version)][name] = array
    for version, arrays in versions.items():
        if not arrays:
            raise ValueError(f"the state has no tensor '{_VERSION}{version}/actor'")
    return Snapshot(events, now, started, versions)


def oldest_watermark(snapshot: Snapshot) -> int | None:
    """Return the end of the oldest replay window that a job in flight draws from."""
    marks = [flight.job.watermark for flight in snapshot.started]
    return min((mark for mark in marks if mark is not None), default=None)


def _row(started: Started) -> list[int]:
    worker, start, job = started
    task: Any = job.task
    kind = _LIVE if isinstance(task, Live) else _TRAIN
    gradient: GradientJob | None = None
    seed = extra = index = _NONE
    if isinstance(task, Live):
        gradient, seed, extra = task.refine, task.seed, int(task.random)
    elif isinstance(task, EvaluateMean):
        kind, seed, extra = _EVALUATE, task.seed, task.episodes
    elif isinstance(task, Evaluate):
        kind, seed, index = _CALL, task.seed, task.member
    else:
        gradient = task.job
    if not isinstance(task, Evaluate):
        index = task.index
    steps = [_NONE] * 3 if gradient is None else list(gradient)
    watermark = _NONE if job.watermark is None else job.watermark
    return [
        *(worker, start, kind, task.version, index, seed, extra),
        *steps,
        *(job.version, job.gradient_steps, job.least_env_steps, job.transitions, watermark),
    ]


def _started(row: list[int]) -> Started:
    worker, start, kind, version, index, seed, extra = row[:7]
    gradient = None if row[7] == _NONE else GradientJob(*row[7:10])
    task: Live | EvaluateMean | TrainCritics | Evaluate
    if kind == _LIVE:
        task = Live(version, index, seed, gradient, bool(extra))
    elif kind == _EVALUATE:
        task = EvaluateMean(version, index, seed, extra)
    elif kind == _CALL:
        task = Evaluate(version, index, 0, 0, seed, 0.0, 0, False, True)
    else:
        assert gradient is not None, "a critic job has gradient steps"
        task = TrainCritics(version, index, gradient)
    job_version, gradient_steps, least, transitions, watermark = row[10:15]
    pinned = None if watermark == _NONE else watermark
    return Started(
        worker, start, Job(task, job_version, gradient_steps, least, transitions, pinned)
    )
