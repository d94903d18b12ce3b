"""Speed of an actor-critic run beside the bound from its own pieces, its lag and batch sizes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from drumline.display.run_data import read_columns
from drumline.runs.folder import RunFolder
from drumline.runs.tables import read_table

LOCKSTEP = ("a2c", "ppo")
"""Methods whose acting and learning take turns, as hts's do with `--lag 0`."""
_CLOCKS = ("env_steps", "wall_seconds")
LAGS = ("policy_lag", "policy_lag_max", "gradient_step_lag")


class Speed(NamedTuple):
    """Facts about the speed of one run; nan where the run's files do not say."""

    measured: float
    """Env steps of training per second, since the session before the latest ended."""
    predicted: float
    """Env steps per second if the role that bounds the speed had never waited."""
    bound: str
    """The role that bounds the speed."""
    policy_lag: float
    """Versions between the policy that acted and the one that learned, mean over the updates."""
    policy_lag_max: float
    gradient_step_lag: float
    update_rows: int
    """Env steps that one update is made from."""
    minibatch_rows: int
    """Env steps of one gradient step; 0 where the config has no minibatches."""
    forward_rows: float
    """Mean rows of the actors' forward passes."""


def speed_of(folder: RunFolder, document: Mapping[str, Any]) -> Speed | None:
    """Return the speed of a run; None for methods whose updates have no lag, or no updates yet."""
    if "policy_lag" not in read_table(folder.metrics_csv).columns:
        return None
    rows = read_columns(folder.metrics_csv, ("update", *_CLOCKS, *LAGS))
    if not rows["env_steps"].size:
        return None
    config = document["config"]
    roles, ended = _roles(folder)
    in_turn = document["method"] in LOCKSTEP or config.get("lag") == 0
    predicted, bound = _bound(roles, in_turn=in_turn)
    actors = roles.get("actor")
    update_rows = int(config.get("num_envs", 0)) * int(config.get("alpha", 0))
    parts = int(config.get("minibatches", 0)) if config.get("learner", "ppo") == "ppo" else 0
    with np.errstate(invalid="ignore"):
        lags = [float(np.nanmean(rows[name])) for name in LAGS[::2]]
    return Speed(
        measured=_measured(rows, ended),
        predicted=predicted,
        bound=bound,
        policy_lag=lags[0],
        policy_lag_max=float(np.nanmax(rows["policy_lag_max"])),
        gradient_step_lag=lags[1],
        update_rows=update_rows,
        minibatch_rows=update_rows // parts if parts else 0,
        forward_rows=actors.progress / actors.tasks if actors and actors.tasks else np.nan,
    )


class _Role(NamedTuple):
    processes: int
    tasks: float
    progress: float
    busy_seconds: float


def _measured(rows: Mapping[str, np.ndarray], ended: float) -> float:
    """Return env steps per second after the update `ended`; over the whole run with none after."""
    first = int(np.searchsorted(rows["update"], ended, side="right")) - 1
    last = len(rows["update"]) - 1
    steps, seconds = (
        float(rows[name][last] - (rows[name][first] if 0 <= first < last else 0.0))
        for name in _CLOCKS
    )
    return steps / seconds if seconds > 0.0 else np.nan


def _roles(folder: RunFolder) -> tuple[dict[str, _Role], float]:
    """Return each role's sums over its processes in the latest session, and the update before it.

    That update is the one at which the session before ended in order; 0 without one.
    """
    if not folder.processes_csv.exists():
        return {}, 0.0
    table = read_table(folder.processes_csv)
    names = ("role", "index", "tasks", "progress", "busy_seconds")
    if any(name not in table.columns for name in names):
        return {}, 0.0
    before = newest = 0.0
    sums: dict[str, list[float]] = {}
    places: dict[str, set[int]] = {}
    ended = False
    for role, index, *values in table.values(names, (str, int, float, float, float)):
        if ended:
            sums, places, before = {}, {}, newest
        # The driver writes its own row as the last one of a session.
        ended = (role, index) == ("learner", 0)
        newest = values[0] if ended else newest
        places.setdefault(role, set()).add(index)
        sums[role] = [a + b for a, b in zip(sums.get(role, [0.0] * 3), values, strict=True)]
    return {role: _Role(len(places[role]), *sums[role]) for role in sums}, before


def _bound(roles: Mapping[str, _Role], *, in_turn: bool) -> tuple[float, str]:
    """1 / max of the roles' busy seconds per env step and process; in turn, 1 / their sum."""
    executors = roles.get("executor")
    if executors is None or not executors.progress:
        return np.nan, "-"
    working = {
        role: one.busy_seconds / one.processes / executors.progress
        for role, one in roles.items()
        if role in ("executor", "actor", "learner") and one.busy_seconds
    }
    if not working:
        return np.nan, "-"
    slowest = max(working, key=lambda role: working[role])
    return 1.0 / (sum(working.values()) if in_turn else working[slowest]), slowest
