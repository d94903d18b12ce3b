"""`printed.txt` keeps the newest output within its bound, and never fails a run."""

from pathlib import Path

from drumline.runs.folder import RunFolder
from drumline.runs.printed_file import PrintedFile


def test_no_file_is_made_before_a_line_is_printed(tmp_path: Path):
    file = PrintedFile()
    file.into(RunFolder(tmp_path, {}))
    file.close()
    assert not list(tmp_path.iterdir())
    assert file.last == ""


def test_lines_from_before_the_file_had_a_place_are_in_it(tmp_path: Path):
    file = PrintedFile()
    file.write(b"made\n")
    file.into(RunFolder(tmp_path, {}))
    file.write(b"one\ntwo\n")
    file.close()
    assert (tmp_path / "printed.txt").read_bytes() == b"made\none\ntwo\n"
    assert (file.lines, file.last) == (3, "two")


def test_the_newest_lines_stay_within_the_bound(tmp_path: Path):
    path = tmp_path / "printed.txt"
    file = PrintedFile(limit=1_000)
    file.into(RunFolder(tmp_path, {}))
    for number in range(5_000):
        file.write(b"line %d\n" % number)
        assert path.stat().st_size <= 1_000
    file.close()
    lines = path.read_text().splitlines()
    assert lines[-1] == "line 4999"
    numbers = [int(line.removeprefix("line ")) for line in lines]
    assert numbers == list(range(numbers[0], 5_000))
    assert len(lines) > 40


def test_one_piece_that_is_larger_than_the_bound_is_cut_to_its_end(tmp_path: Path):
    file = PrintedFile(limit=100)
    file.into(RunFolder(tmp_path, {}))
    file.write(b"".join(b"line %d\n" % number for number in range(1_000)))
    file.close()
    lines = (tmp_path / "printed.txt").read_text().splitlines()
    assert lines[-1] == "line 999"
    assert len("\n".join(lines)) <= 50


def test_a_resumed_run_goes_on_in_its_file_and_within_its_bound(tmp_path: Path):
    path = tmp_path / "printed.txt"
    path.write_bytes(b"before\n" * 140)
    file = PrintedFile(limit=1_000)
    file.into(RunFolder(tmp_path, {}))
    file.write(b"after\n" * 10)
    file.close()
    assert path.stat().st_size <= 1_000
    assert path.read_text().endswith("before\n" + "after\n" * 10)


def test_a_link_in_its_place_is_left_alone(tmp_path: Path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "printed.txt").symlink_to(tmp_path / "other")
    file = PrintedFile()
    file.into(RunFolder(tmp_path, {}))
    file.write(b"line\n")
    file.close()
    assert (tmp_path / "other").read_text() == "mine"
    assert file.last == "line"


def test_a_long_last_line_is_cut():
    file = PrintedFile()
    file.write(b"x" * 5_000)
    assert file.last == "x" * 200 + "…"
