"""`drumline list`: a table of runs."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_COLUMNS = ("run", "method", "environment", "seed", "steps", "score", "state", "tags")
_NUMBERS = ("seed", "steps", "score")


@dataclass(frozen=True)
class ListFlags:
    """Flags of `drumline list`."""

    tag: str = ""
    """List the runs with this tag alone."""
    json: bool = False
    """Print one JSON object per run and line, with its folder and all its tags."""


def command(line: CommandLine) -> int:
    """List the runs in folders, by default runs/; imports no code that a run folder names."""
    flags = line.flags("[FOLDER…]", {"listing": ListFlags()})["listing"]
    from drumline.display.plain import json_line
    from drumline.runs.folder import RUNS
    from drumline.runs.safe_text import visible

    places = [Path(name) for name in line.names] or [RUNS]
    for place in places:
        if line.names and not place.is_dir():
            raise WrongUse(f"there is no folder {place}: list takes folders of runs, or none")
    found = [row for place in places for row in _rows(place)]
    if flags.tag:
        found = [row for row in found if flags.tag in row["tags"]]
    if flags.json:
        for row in found:
            print(json_line(row))
    elif found:
        print(visible("\n".join(_table(found, places)), lines=True))
    else:
        tagged = f" with the tag {flags.tag}" if flags.tag else ""
        print(f"no runs{tagged} in {', '.join(map(str, places))}")
    return 0


def _rows(place: Path) -> "Iterator[dict[str, Any]]":
    """Yield the rows of the runs in a folder, the oldest first; a damaged run is one of them."""
    from drumline.runs.folder import RunError, RunFolder, as_run
    from drumline.runs.run_row import row_of

    known: list[tuple[str, dict[str, Any]]] = []
    for path in [place] if _may_be_run(place) else _runs_in(place):
        row: dict[str, Any] = dict.fromkeys((*_COLUMNS, "total_steps"))
        row |= {"run": as_run(path), "tags": [], "state": "damaged"}
        created = ""
        try:
            folder = RunFolder.at(path)
            created = str(folder.document.get("created", ""))
            row |= row_of(folder)
        except (RunError, ValueError, OSError) as error:
            row["fault"] = str(error)
        known.append((created, row))
    yield from (row for _, row in sorted(known, key=lambda each: (each[0], each[1]["run"])))


def _runs_in(place: Path) -> list[Path]:
    """Return the runs in a folder and in its folders of runs, and what is perhaps one.

    None where there is no folder.
    """
    from drumline.runs.folder import runs_in

    found: list[Path] = []
    with suppress(FileNotFoundError):
        for path in place.iterdir():
            if not path.name.startswith("."):  # a copy that `fetch` has begun
                found += [path] if _may_be_run(path) else runs_in(path)
    return found


def _may_be_run(path: Path) -> bool:
    """Whether a folder has a config.json, or keeps from this user whether it has one."""
    try:
        (path / "config.json").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _table(rows: "Sequence[dict[str, Any]]", places: "Sequence[Path]") -> list[str]:
    """Return the lines of the table; a column that is empty in all rows is left out."""
    cells = [{name: _cell(name, row[name], places) for name in _COLUMNS} for row in rows]
    columns = [name for name in _COLUMNS if name != "tags" or any(row["tags"] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in columns}
    lines = []
    for row in ({name: name for name in columns}, *cells):
        line = [
            row[name].rjust(widths[name]) if name in _NUMBERS else row[name].ljust(widths[name])
            for name in columns
        ]
        lines.append("  ".join(line).rstrip())
    return lines


def _cell(name: str, value: Any, places: "Sequence[Path]") -> str:
    if value is None:
        return "-"
    if name == "run":
        path = Path(os.path.abspath(value))
        inside = any(path.parent.parent == Path(os.path.abspath(place)) for place in places)
        return "/".join(path.parts[-2:]) if inside else path.name
    if name == "score":
        return f"{value:.6g}"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
