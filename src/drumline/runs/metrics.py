"""Numbers as CSV rows: floats by `repr`, so that reading a row gives the same bits."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline.runs.append_file import LONGEST_LINE
from drumline.runs.own_files import is_there
from drumline.runs.run_error import RunError
from drumline.runs.tables import read_table
from drumline.types import EpisodeRow, EvaluationRow, Metrics

EPISODES_HEADER = "update,member,sign,episode_return,length"
EVALUATIONS_HEADER = "update,env_steps,episodes,mean,standard_error,minimum,maximum,returns,lengths"

MOST_EPISODES = LONGEST_LINE // 48
"""Most episodes of an evaluation: a return and a length have at most 24 and 19 signs."""


def metrics_columns(metrics: Metrics) -> tuple[str, ...]:
    """Return the columns of metrics.csv; the first record of a run fixes them."""
    return ("update", *(name for name in metrics if name != "update"))


def is_column(name: object) -> bool:
    """Return whether a name can be a column: its header is one line of unquoted cells."""
    if not isinstance(name, str) or not name:
        return False
    return name.isprintable() and not {",", '"'} & set(name)


def is_number(value: object) -> bool:
    """Return whether a metric's value has a cell: a real number, of Python, NumPy or torch."""
    if type(value) is float:
        return True
    if isinstance(value, (str, bytes, bytearray, complex, np.complexfloating)):
        return False  # float() takes the text of a number, and drops an imaginary part
    try:
        float(value)  # pyright: ignore[reportArgumentType] - whether it takes it is the question
    except (TypeError, ValueError, OverflowError, RuntimeError):  # torch raises the last
        return False
    return True


def read_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of an existing CSV file; none if it is empty or absent."""
    return read_table(path).columns if is_there(path) else ()


def metrics_line(columns: Sequence[str], update: int, metrics: Metrics) -> str:
    """Return one row; an absent metric is an empty cell, an unknown one a ValueError."""
    cells = [str(update)]
    known = 0
    for name in columns[1:]:
        value = metrics.get(name)
        if value is None:
            cells.append("")
        else:
            known += 1
            cells.append(_number(value))
    if known != len(metrics) - ("update" in metrics):
        unknown = sorted(set(metrics) - set(columns))
        raise ValueError(f"update {update} has metrics that the first record lacked: {unknown}")
    return ",".join(cells)


def episode_lines(episodes: Iterable[EpisodeRow]) -> str:
    """Return the rows of one update's training episodes."""
    return "".join(
        f"{update},{member},{sign},{_number(episode_return)},{length}"
        f"{'' if score is None else f',{_number(score)}'}\n"
        for update, member, sign, episode_return, length, score in episodes
    )


def episodes_header(episodes: Sequence[EpisodeRow]) -> str:
    """Return the header that fits the first rows of a run."""
    return EPISODES_HEADER if episodes[0].score is None else f"{EPISODES_HEADER},score"


def evaluation_line(row: EvaluationRow) -> str:
    """Return one row. The standard error is s/√n with n − 1 under s; nan for one episode."""
    returns = [float(value) for value in row.returns]
    if not returns:
        raise ValueError(f"the evaluation of update {row.update} has no episodes")
    count = len(returns)
    # fsum rounds once, so that equal returns have equal means on every machine
    mean = math.fsum(returns) / count
    squares = math.fsum((value - mean) ** 2 for value in returns)
    error = math.sqrt(squares / (count - 1) / count) if count > 1 else math.nan
    cells = (
        str(row.update),
        str(row.env_steps),
        str(count),
        repr(mean),
        repr(error),
        repr(min(returns)),
        repr(max(returns)),
        ";".join(map(repr, returns)),
        ";".join(str(length) for length in row.lengths),
    )
    return ",".join(cells)


def read_evaluations(path: Path) -> list[EvaluationRow]:
    """Return the rows of evaluations.csv, earlier sessions included; none if there is no file."""
    return list(evaluation_rows(path))


def evaluation_rows(path: Path) -> Iterator[EvaluationRow]:
    """Yield the rows of evaluations.csv, one in memory at a time; none if there is no file."""
    if not is_there(path):
        return
    table = read_table(path)
    if not table.columns:
        return
    if table.columns != tuple(EVALUATIONS_HEADER.split(",")):
        raise RunError(f"{path} is damaged: line 1 is not its header; give another RUN")
    kinds: tuple[Callable[[str], Any], ...] = (int, int, _floats, _integers)
    for row in table.values(("update", "env_steps", "returns", "lengths"), kinds):
        yield EvaluationRow(*row)


def last_evaluation(path: Path) -> EvaluationRow | None:
    """Return the newest row of evaluations.csv; None before the first one."""
    newest = None
    for row in evaluation_rows(path):
        newest = row
    return newest


def _floats(cell: str) -> tuple[float, ...]:
    return tuple(map(float, cell.split(";")))


def _integers(cell: str) -> tuple[int, ...]:
    return tuple(map(int, cell.split(";")))


def _number(value: float) -> str:
    kind = type(value)
    if kind is float or kind is int:
        return repr(value)
    return repr(float(value))  # the repr of a NumPy scalar names its type
