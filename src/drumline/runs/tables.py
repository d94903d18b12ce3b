"""CSV files of a run folder, one row in memory at a time; every fault is one RunError."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from drumline.runs.append_file import whole_lines
from drumline.runs.run_error import RunError

T = TypeVar("T")


class Table(NamedTuple):
    """A CSV file with its columns; `rows` and `values` read it anew."""

    path: Path
    columns: tuple[str, ...]

    def rows(self) -> Iterator[list[str]]:
        """Yield the whole rows, each with as many cells as there are columns."""
        lines = csv_lines(self.path)
        next(lines, None)
        for number, line in enumerate(lines, start=2):
            if len(line) != len(self.columns):
                raise RunError(
                    f"{self.path} is damaged: line {number} has {len(line)} cells instead of "
                    f"{len(self.columns)}; give another RUN"
                )
            yield line

    def values(
        self, names: Sequence[str], kinds: Sequence[Callable[[str], Any]]
    ) -> Iterator[list[Any]]:
        """Yield each row's cells of some columns as their kinds; RunError for one that is none."""
        places = [self.columns.index(name) for name in names]
        wanted = list(zip(places, kinds, strict=True))
        for number, row in enumerate(self.rows(), start=2):
            yield [self._cell(number, row, place, kind) for place, kind in wanted]

    def _cell(self, number: int, row: list[str], place: int, kind: Callable[[str], T]) -> T:
        try:
            return kind(row[place])
        except (ValueError, OverflowError) as error:
            raise RunError(
                f"{self.path} is damaged: line {number}, {self.columns[place]}: {error}"
            ) from error


def read_table(path: Path) -> Table:
    """Return a file's table; OSError if it cannot be opened, no columns if it is empty."""
    return Table(path, tuple(next(csv_lines(path), ())))


def csv_lines(path: Path) -> Iterator[list[str]]:
    """Yield the cells of each whole line of a CSV file, its header included.

    No cell of a run folder is quoted, and Python's reader refuses those of long evaluations.
    """
    try:
        for line in whole_lines(path):
            cells = line.decode().rstrip("\r")
            yield cells.split(",") if cells else []
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: {error}; give another RUN") from error
