"""The curves of a run folder, read from its CSV files."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drumline.display.thinned_rows import ThinnedRows
from drumline.runs.metrics import last_evaluation
from drumline.runs.own_files import is_there, read_file
from drumline.runs.problem import ENVIRONMENT, Words, words_of
from drumline.runs.strict_json import parsed
from drumline.runs.tables import read_table

RETURN = "episode_return_mean"
_CLOCKS = ("env_steps", "wall_seconds")
_EVALUATIONS = ("env_steps", "mean", "standard_error")


@dataclass(frozen=True, eq=False)
class RunCurve:
    """Data of one run's curves: training `[N]` and evaluation `[M]` against two clocks.

    A file of more than 131,072 rows is thinned evenly; its first and last row are kept.
    """

    label: str
    env_steps: np.ndarray
    wall_seconds: np.ndarray
    episode_return_mean: np.ndarray
    evaluation_env_steps: np.ndarray
    evaluation_wall_seconds: np.ndarray
    evaluation_mean: np.ndarray
    evaluation_standard_error: np.ndarray
    what: str = ENVIRONMENT.value_axis
    """Quantity of `episode_return_mean`: another column of metrics.csv has no evaluations."""
    words: Words = ENVIRONMENT
    """Words for what the run measures and counts."""


def read_run(folder: Path, label: str | None = None, y: str = RETURN) -> RunCurve:
    """Read metrics.csv and, if present, evaluations.csv; an incomplete last row is left out.

    `y` names the column that is drawn. Evaluations have no clock of their own: theirs is the
    training's at the same env steps.
    """
    metrics = read_columns(folder / "metrics.csv", (*_CLOCKS, y))
    env_steps, wall_seconds, values = (metrics[name] for name in (*_CLOCKS, y))
    if env_steps.size == 0:
        raise ValueError(f"{folder / 'metrics.csv'} has no updates yet: nothing to plot")
    path = folder / "evaluations.csv"
    none = {name: np.zeros(0) for name in _EVALUATIONS}
    evaluated = y == RETURN and is_there(path)
    evaluations = read_columns(path, _EVALUATIONS) if evaluated else none
    words = _words(folder / "config.json")
    return RunCurve(
        label=label or folder.absolute().name,
        env_steps=env_steps,
        wall_seconds=wall_seconds,
        episode_return_mean=values,
        evaluation_env_steps=evaluations["env_steps"],
        evaluation_wall_seconds=np.interp(evaluations["env_steps"], env_steps, wall_seconds),
        evaluation_mean=evaluations["mean"],
        evaluation_standard_error=evaluations["standard_error"],
        what=words.value_axis if y == RETURN else y.replace("_", " "),
        words=words,
    )


def has_updates(folder: Path) -> bool:
    """Return whether metrics.csv has a row."""
    path = folder / "metrics.csv"
    return is_there(path) and any(True for _ in number_rows(path, ("env_steps",)))


def column_names(folder: Path) -> list[str]:
    """Return the columns of metrics.csv that can be drawn."""
    try:
        names = read_table(folder / "metrics.csv").columns
    except OSError as error:
        raise ValueError(f"cannot read {folder / 'metrics.csv'}: {error.strerror}") from error
    return [name for name in names if name not in _CLOCKS]


def _words(path: Path) -> Words:
    """Return the words of a run's config; those of an environment where it cannot be read."""
    try:
        config = parsed(read_file(path))["config"]
        return words_of(config)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ENVIRONMENT


def last_returns(folder: Path) -> list[float]:
    """Return the returns of the newest evaluation; empty before the first one."""
    row = last_evaluation(folder / "evaluations.csv")
    return [] if row is None else list(row.returns)


def read_columns(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read columns of a CSV file, thinned to `MOST` rows, its first and last row among them."""
    kept = ThinnedRows(len(names))
    for index, row in enumerate(number_rows(path, names)):
        kept.add(index, row)
    return dict(zip(names, kept.columns(), strict=True))


def number_rows(path: Path, names: tuple[str, ...]) -> Iterator[list[float]]:
    """Yield each row's cells of some columns; an empty cell is nan.

    An incomplete last row is left out.
    """
    try:
        table = read_table(path)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    missing = [name for name in names if name not in table.columns]
    if missing and table.columns:
        raise ValueError(f"{path} lacks the columns {', '.join(missing)}")
    if not missing:
        yield from table.values(names, [_number] * len(names))


def _number(text: str) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
