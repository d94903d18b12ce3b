"""Checks of a method's answers to a run, its metrics and states; `StrategyFailed` says the fault.

A method from outside may answer with anything. Its fault is named where it is made: later it would
damage a file, or end the run inside of Drumline's own code.
"""

from collections.abc import Mapping
from typing import Any

from drumline.errors import StrategyFailed
from drumline.runs.metrics import is_column, is_number
from drumline.types import Metrics, State

OWN_COLUMNS = ("update", "env_steps", "episodes", "wall_seconds", "env_steps_evaluation")
"""Columns of metrics.csv that a run counts itself, whatever its method."""
RETURN = "episode_return_mean"
"""Metric of every record: the curve of the display, of plots and of reports."""


def whole_state(method: object, state: Any) -> State:
    """Return the answer of a method's `state()`, which must be a `State`."""
    if not isinstance(state, State):
        raise StrategyFailed(
            f"{_named(method)}.state() returned an object of type {_named(state)}: it must return "
            "a drumline.types.State of arrays and counters"
        )
    return state


def told_metrics(method: object, metrics: Any) -> Metrics:
    """Return the answer of a strategy's `tell`, which must be a dict with the mean return."""
    begins = f"{_named(method)}.tell() returned"
    mean = f"the mean of the results' episode_return, as {RETURN}"
    if not isinstance(metrics, Mapping):
        raise StrategyFailed(
            f"{begins} {metrics!r:.80}: it must return a dict of metrics, with {mean}"
        )
    told: Metrics = {**metrics}
    if RETURN not in told:
        names = ", ".join(map(str, told)) or "none"
        raise StrategyFailed(f"{begins} metrics ({names}) without {RETURN}: it must return {mean}")
    return told


def refuse_names(metrics: Metrics) -> None:
    """Raise `StrategyFailed` for a metric that cannot be a column, or is one of the run's own."""
    for name in metrics:
        if not is_column(name):
            raise StrategyFailed(
                f"the method's metric {name!r:.80} cannot be a column of metrics.csv: its name "
                "must be a line of printable text without commas and double quotes"
            )
        if name in OWN_COLUMNS:
            raise StrategyFailed(
                f"the method's metric {name!r} has the name of a number that the run itself "
                f"counts: give it another name than {', '.join(OWN_COLUMNS)}"
            )


def refuse_values(update: int, metrics: Metrics) -> None:
    """Raise `StrategyFailed` for a metric of an update that is no number."""
    for name, value in metrics.items():
        if not is_number(value):
            raise StrategyFailed(
                f"the method's metric {name!r} of update {update} is {value!r:.80}, of type "
                f"{_named(value)}: it must be one number"
            )


def _named(value: object) -> str:
    return type(value).__name__
