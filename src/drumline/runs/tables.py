"""CSV files of a run folder as rows of text; every fault is one RunError that names the line."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from drumline.runs.append_file import whole_lines
from drumline.runs.run_error import RunError

T = TypeVar("T")


class Table(NamedTuple):
    """A CSV file as read."""

    path: Path
    columns: tuple[str, ...]
    rows: list[list[str]]

    def cells(self, column: str, kind: Callable[[str], T]) -> list[T]:
        """Return the cells of a column as `kind`; RunError for the first that is none."""
        place = self.columns.index(column)
        return [self.cell(number, place, kind) for number in range(len(self.rows))]

    def cell(self, row: int, place: int, kind: Callable[[str], T]) -> T:
        """Return one cell as `kind`."""
        try:
            return kind(self.rows[row][place])
        except (ValueError, OverflowError) as error:
            raise RunError(
                f"{self.path} is damaged: line {row + 2}, {self.columns[place]}: {error}"
            ) from error


def read_table(path: Path) -> Table:
    """Return a file's whole rows, each with as many cells as there are columns."""
    try:
        lines = list(csv.reader(whole_lines(path)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}; give another RUN") from error
    columns = tuple(lines[0]) if lines else ()
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(columns):
            raise RunError(
                f"{path} is damaged: line {number} has {len(line)} cells instead of "
                f"{len(columns)}; give another RUN"
            )
    return Table(path, columns, lines[1:])
