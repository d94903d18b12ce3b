"""The hash chain of a run: two runs are equal up to an update exactly when their chains are."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drumline.runs.folder import RunError
from drumline.runs.tables import csv_lines

_DIGITS = 18
"""Digits of the largest number of an update."""

MISSING = "missing"
"""Column of a `Difference` where only one of the chains has the row or column."""


class ChainRow(NamedTuple):
    """Hashes of one update's published arrays, chained to all rows before it."""

    update: int
    hashes: tuple[str, ...]
    chained: str


@dataclass(frozen=True)
class Chain:
    """fingerprints.csv: the names of the published arrays; `rows` reads the rest."""

    columns: tuple[str, ...]
    path: Path | None
    """None for a chain without rows."""

    def rows(self) -> Iterator[ChainRow]:
        """Yield the rows by rising update; RunError unless each follows from the one before it.

        One row is in memory at a time. An incomplete last line, as a killed run leaves one, is left
        out.
        """
        if self.path is None:
            return
        head, newest = chain_start(self.columns), -1
        lines = _lines(self.path)
        next(lines, None)
        for number, cells in enumerate(lines, start=2):
            row = _parse_row(cells, len(self.columns))
            follows = row is not None and row.chained == _chained(head, row.update, row.hashes)
            if row is None or not follows or row.update <= newest:
                raise RunError(
                    f"{self.path} is damaged: line {number} does not follow from the one before "
                    "it; give another RUN"
                )
            yield row
            head, newest = row.chained, row.update

    def last(self) -> ChainRow | None:
        """Return the newest row, after reading all of them; None without one."""
        newest = None
        for row in self.rows():
            newest = row
        return newest


class Difference(NamedTuple):
    """The first place where two chains differ."""

    update: int
    column: str
    """Name of the published array that differs, or `MISSING`."""


def little_endian(array: np.ndarray) -> np.ndarray:
    """Return the array contiguous and little-endian, as on disk; without a copy where it is so."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def array_hash(array: np.ndarray) -> str:
    """SHA-256 over dtype, shape and bytes: equal numbers in another shape have another hash."""
    stored = little_endian(array)
    digest = hashlib.sha256(f"{stored.dtype.str} {stored.shape}\n".encode())
    digest.update(stored.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def chain_columns(arrays: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return the column names, sorted, so that the order of publishing has no influence."""
    return tuple(sorted(arrays))


def chain_header(columns: Sequence[str]) -> str:
    """Return the header line of fingerprints.csv."""
    return ",".join(("update", *columns, "chained"))


def chain_start(columns: Sequence[str]) -> str:
    """Return the hash before the first row: that of the header, which covers the names."""
    return hashlib.sha256(chain_header(columns).encode()).hexdigest()


def next_row(
    previous: str, update: int, arrays: Mapping[str, np.ndarray], columns: Sequence[str]
) -> ChainRow:
    """chained = SHA-256(previous chained ‖ update ‖ hashes); ValueError if the names changed."""
    if chain_columns(arrays) != tuple(columns):
        raise ValueError(
            f"update {update} publishes {sorted(arrays)}, the run so far {list(columns)}"
        )
    hashes = tuple(array_hash(arrays[name]) for name in columns)
    return ChainRow(update, hashes, _chained(previous, update, hashes))


def row_line(row: ChainRow) -> str:
    """Return the row as a line of fingerprints.csv."""
    return ",".join((str(row.update), *row.hashes, row.chained))


def read_chain(path: Path) -> Chain:
    """Read the header of fingerprints.csv; RunError if there is none."""
    header = next(_lines(path), None)
    if header is None:
        return Chain((), None)
    if len(header) < 2 or header[0] != "update" or header[-1] != "chained":
        raise RunError(f"{path} is damaged: line 1 is not its header; give another RUN")
    return Chain(tuple(header[1:-1]), path)


def first_difference(first: Chain, second: Chain, *, whole: bool = False) -> Difference | None:
    """Compare the updates of both chains; with `whole`, a row in only one of them differs too.

    Chains without a common update differ, because no update was compared. Both are read to their
    ends, so that a damaged row is found wherever it is.
    """
    compared = False
    differs: Difference | None = None
    lacking: int | None = None
    for update, one, other in _side_by_side(first, second):
        if one is None or other is None:
            lacking = update if lacking is None else lacking
            continue
        if not compared and first.columns != second.columns:
            only_one = sorted(set(first.columns) ^ set(second.columns))
            differs = Difference(update, only_one[0])
        compared = True
        differs = differs or _row_difference(first.columns, one, other)
    if not compared:
        return Difference(lacking or 0, MISSING)
    if differs is None and whole and lacking is not None:
        return Difference(lacking, MISSING)
    return differs


def _side_by_side(
    first: Chain, second: Chain
) -> Iterator[tuple[int, ChainRow | None, ChainRow | None]]:
    """Yield (update, row, row) by update; None for the chain that lacks the update."""
    ours, theirs = first.rows(), second.rows()
    one, other = next(ours, None), next(theirs, None)
    while one is not None or other is not None:
        if one is not None and (other is None or one.update < other.update):
            yield one.update, one, None
            one = next(ours, None)
        elif other is not None and (one is None or other.update < one.update):
            yield other.update, None, other
            other = next(theirs, None)
        elif one is not None and other is not None:
            yield one.update, one, other
            one, other = next(ours, None), next(theirs, None)


def _lines(path: Path) -> Iterator[list[str]]:
    try:
        yield from csv_lines(path)
    except OSError as error:
        raise RunError(f"cannot read {path} ({error}); give another RUN") from error


def _parse_row(cells: Sequence[str], count: int) -> ChainRow | None:
    if len(cells) != count + 2 or not cells[0].isdecimal() or len(cells[0]) > _DIGITS:
        return None
    return ChainRow(int(cells[0]), tuple(cells[1:-1]), cells[-1])


def _row_difference(columns: Sequence[str], one: ChainRow, other: ChainRow) -> Difference | None:
    if one == other:
        return None
    names = (*columns, "chained")
    hashes = zip(names, (*one.hashes, one.chained), (*other.hashes, other.chained), strict=True)
    return next(Difference(one.update, name) for name, a, b in hashes if a != b)


def _chained(previous: str, update: int, hashes: Sequence[str]) -> str:
    return hashlib.sha256(f"{previous},{update},{','.join(hashes)}".encode()).hexdigest()
