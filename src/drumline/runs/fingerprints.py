"""The hash chain of a run: two runs are equal up to an update exactly when their chains are."""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drumline.runs.append_file import whole_lines
from drumline.runs.folder import RunError

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
    """fingerprints.csv as read: the names of the published arrays, and the rows by update."""

    columns: tuple[str, ...]
    rows: dict[int, ChainRow]


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
    """Read fingerprints.csv; RunError unless every row follows from the one before it.

    An incomplete last line, as a killed run leaves one, is left out.
    """
    try:
        lines = list(csv.reader(whole_lines(path)))
    except (OSError, ValueError, csv.Error) as error:
        raise RunError(f"cannot read {path} ({error}); give another RUN") from error
    if not lines:
        return Chain((), {})
    if len(lines[0]) < 2 or lines[0][0] != "update" or lines[0][-1] != "chained":
        raise RunError(f"{path} is damaged: line 1 is not its header; give another RUN")
    columns = tuple(lines[0][1:-1])
    rows: dict[int, ChainRow] = {}
    head = chain_start(columns)
    for number, cells in enumerate(lines[1:], start=2):
        row = _parse_row(cells, len(columns))
        if row is None or row.chained != _chained(head, row.update, row.hashes):
            raise RunError(
                f"{path} is damaged: line {number} does not follow from the one before it; "
                "give another RUN"
            )
        rows[row.update] = row
        head = row.chained
    return Chain(columns, rows)


def first_difference(first: Chain, second: Chain, *, whole: bool = False) -> Difference | None:
    """Compare the updates of both chains; with `whole`, a row in only one of them differs too.

    Chains without a common update differ, because no update was compared.
    """
    common = sorted(first.rows.keys() & second.rows.keys())
    if not common:
        return Difference(min(first.rows.keys() | second.rows.keys(), default=0), MISSING)
    if first.columns != second.columns:
        only_one = sorted(set(first.columns) ^ set(second.columns))
        return Difference(common[0], only_one[0])
    for update in common:
        difference = _row_difference(first.columns, first.rows[update], second.rows[update])
        if difference is not None:
            return difference
    lacking = sorted(first.rows.keys() ^ second.rows.keys()) if whole else []
    return Difference(lacking[0], MISSING) if lacking else None


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
