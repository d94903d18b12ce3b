from pathlib import Path

import numpy as np
import pytest
from runs.runs_examples import example_record

from drumline.runs.fingerprints import (
    MISSING,
    Chain,
    Difference,
    array_hash,
    chain_columns,
    chain_header,
    chain_start,
    first_difference,
    next_row,
    read_chain,
    row_line,
)
from drumline.runs.folder import RunError


def write_chain(
    path: Path, updates: range, change: tuple[int, str] | None = None, *extra: str
) -> Path:
    columns = chain_columns({**example_record(0).published, **dict.fromkeys(extra, np.zeros(1))})
    lines, head = [chain_header(columns)], chain_start(columns)
    for update in updates:
        arrays = {**example_record(update).published, **dict.fromkeys(extra, np.zeros(1))}
        if change is not None and change[0] == update:
            arrays[change[1]] = np.nextafter(arrays[change[1]], 9)
        row = next_row(head, update, arrays, columns)
        head = row.chained
        lines.append(row_line(row))
    path.write_text("\n".join(lines) + "\n")
    return path


def chain(tmp_path: Path, stop: int, change: tuple[int, str] | None = None) -> Chain:
    name = f"{stop} {change}.csv"
    return read_chain(write_chain(tmp_path / name, range(1, stop), change))


def test_equal_runs_have_no_difference(tmp_path: Path):
    assert first_difference(chain(tmp_path, 6), chain(tmp_path, 6), whole=True) is None


@pytest.mark.parametrize("column", ["mean", "parameters"])
@pytest.mark.parametrize("update", [1, 3, 5])
def test_first_difference_names_update_and_array(tmp_path: Path, update: int, column: str):
    good, bad = chain(tmp_path, 6), chain(tmp_path, 6, (update, column))
    assert first_difference(good, bad) == Difference(update, column)
    (*_, last), (*_, bad_last) = good.rows(), bad.rows()
    assert last.update == bad_last.update == 5
    assert last.chained != bad_last.chained


def test_shorter_chain_differs_only_if_the_whole_is_asked_for(tmp_path: Path):
    short, long = chain(tmp_path, 4), chain(tmp_path, 6)
    assert first_difference(short, long) is None
    assert first_difference(short, long, whole=True) == Difference(4, MISSING)
    assert first_difference(long, short, whole=True) == Difference(4, MISSING)


def test_chains_without_a_common_update_are_never_equal(tmp_path: Path):
    empty = chain(tmp_path, 1)
    assert first_difference(empty, chain(tmp_path, 3)) == Difference(1, MISSING)
    assert first_difference(empty, empty) == Difference(0, MISSING)


def test_other_array_names_are_a_difference(tmp_path: Path):
    one = chain(tmp_path, 3)
    other = read_chain(write_chain(tmp_path / "other.csv", range(1, 3), None, "extra"))
    assert first_difference(one, other) == Difference(1, "extra")


def test_edited_row_is_noticed_with_its_line(tmp_path: Path):
    path = write_chain(tmp_path / "f.csv", range(1, 6))
    lines = path.read_text().splitlines(keepends=True)
    for number in range(1, 6):
        edited = lines[number].replace("a", "b", 1)
        path.write_text("".join([*lines[:number], edited, *lines[number + 1 :]]))
        with pytest.raises(RunError, match=f"line {number + 1} does not follow"):
            read_chain(path).last()
    path.write_text("".join([*lines[:2], *lines[3:]]))
    with pytest.raises(RunError, match="line 3 does not follow"):
        read_chain(path).last()


def test_half_a_last_line_does_not_count(tmp_path: Path):
    path = write_chain(tmp_path / "f.csv", range(1, 4))
    text = path.read_text()
    path.write_text(text[:-1])
    assert [row.update for row in read_chain(path).rows()] == [1, 2]


def test_file_that_is_no_chain_is_refused(tmp_path: Path):
    path = tmp_path / "f.csv"
    with pytest.raises(RunError, match="cannot read"):
        read_chain(path)
    path.write_text("update,return\n1,2\n")
    with pytest.raises(RunError, match="line 1"):
        read_chain(path)


def test_row_with_other_arrays_is_refused():
    with pytest.raises(ValueError, match="update 3 publishes"):
        next_row("", 3, {"b": np.zeros(1)}, ("a",))


def test_hash_depends_on_shape_and_dtype_but_not_on_memory_layout():
    array = np.arange(6.0).reshape(2, 3)
    assert array_hash(array) == array_hash(np.asfortranarray(array))
    assert array_hash(array) == array_hash(array.astype(">f8"))
    assert array_hash(array) != array_hash(array.reshape(3, 2))
    assert array_hash(array) != array_hash(array.view(np.int64))
