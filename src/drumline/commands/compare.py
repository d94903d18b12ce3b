"""`drumline compare RUN…`."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.commands.command_line import (
    CommandLine,
    WrongUse,
    refuse_other_pictures,
    refuse_unwritable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drumline.display.comparison import Group, Score, Steadiness
    from drumline.display.run_data import RunCurve

_BORDERS = 3
"""Characters that a drawn table has beside each cell."""


@dataclass(frozen=True)
class CompareFlags:
    """Flags of `drumline compare`."""

    out: Path = Path("compare.png")
    """Write the picture to this file: a .png, or a .pdf or .svg for papers."""
    quiet: bool = False
    """Print only the picture's path."""
    json: bool = False
    """Print one JSON object."""


def command(line: CommandLine) -> int:
    """Compare runs, grouped over seeds; imports no code that a run folder names."""
    flags = line.flags("RUN…", {"comparison": CompareFlags()})["comparison"]
    if not line.names:
        raise WrongUse("give at least one RUN before the flags, as in: drumline compare runs/*")
    refuse_unwritable(flags.out)
    refuse_other_pictures(flags.out)
    from drumline.display.comparison import (
        definitions,
        draw_comparison,
        equal_budget,
        final_quantity,
        grouped,
        quantity,
        without_repeats,
        words_of_groups,
    )
    from drumline.runs.safe_text import visible

    runs, repeats = without_repeats(_read(line.names))
    groups = grouped(runs)
    what, final_what = quantity(groups), final_quantity(groups)
    words = words_of_groups(groups)
    steps = equal_budget(groups, what, "env_steps")
    seconds = equal_budget(groups, what, "wall_seconds")
    rows = [_row(group, what, final_what, steps, seconds) for group in groups]
    draw_comparison(groups, flags.out)
    if flags.json:
        answer = {
            "compared": what,
            "final_of": final_what,
            "env_steps": steps,
            "wall_seconds": seconds,
            "groups": rows,
            "repeats": repeats,
        }
        print(json.dumps({**answer, "picture": str(flags.out)}))
        return 0
    if not flags.quiet:
        _say(rows, _headings(words.steps))
        print(
            f"{definitions(groups)}; at equal {words.steps} ({steps:.0f}) and time "
            f"({seconds:.1f} s): {what} {words.values} known then"
        )
        if repeats:
            names = visible(", ".join(repeats))
            print(f"left out, for they repeat another run's seed and values: {names}")
    print(flags.out)
    return 0


def _read(names: "Sequence[str]") -> "list[tuple[dict[str, Any], RunCurve]]":
    """Return each run's document and curve: ours, and those that other libraries logged."""
    from drumline.commands.without_updates import with_updates
    from drumline.display.foreign_logs import read_foreign
    from drumline.display.run_data import read_run
    from drumline.recipes.methods import with_late_settings
    from drumline.runs.folder import RunFolder

    places = {Path(name).resolve(): name for name in names}  # a run named twice counts once
    foreign = {name: read_foreign(Path(name)) for name in places.values()}
    ours = RunFolder.open_each([name for name, run in foreign.items() if run is None])
    there = with_updates(ours, alone=all(run is None for run in foreign.values()))
    runs = [(with_late_settings(f.document), read_run(Path(f.shown))) for f in there]
    return runs + [(run.document, run.curve) for run in foreign.values() if run is not None]


def _row(
    group: "Group", what: str, final_what: str, steps: float, seconds: float
) -> dict[str, Any]:
    from drumline.display.comparison import score_at, steadiness

    scores = {
        "final": score_at(group, final_what, "env_steps", float("inf")),
        "at_equal_env_steps": score_at(group, what, "env_steps", steps),
        "at_equal_wall_seconds": score_at(group, what, "wall_seconds", seconds),
    }
    found = {name: _document(score) for name, score in scores.items()}
    stability = _document(steadiness(group, what, final_what))
    return {"group": group.label, "runs": len(group.runs), **found, "stability": stability}


def _document(record: "Score | Steadiness | None") -> dict[str, Any] | None:
    if record is None:
        return None
    # One run has no interval and no spread, and JSON has no nan.
    return {k: None if v != v else v for k, v in record._asdict().items()}


def _headings(steps: str) -> list[str]:
    return [
        *("group", "runs", "final", f"at equal {steps}", "at equal time"),
        *("spread", "worst", "drawdown"),
    ]


def _say(rows: list[dict[str, Any]], headings: list[str]) -> None:
    from drumline.runs.safe_text import visible

    names = ("final", "at_equal_env_steps", "at_equal_wall_seconds")
    cells = [
        [
            visible(row["group"]),
            str(row["runs"]),
            *(_cell(row[name], row["runs"]) for name in names),
            *(_number(row["stability"], name) for name in ("std", "worst", "drawdown")),
        ]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        if sum(widths) + _BORDERS * len(widths) < console.width:  # else it would cut cells off
            table = Table(*headings)
            for row in cells:
                table.add_row(*map(Text, row))  # a run's name is no markup
            console.print(table)
            return
    for row in [headings, *cells]:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def _cell(score: dict[str, Any] | None, runs: int) -> str:
    if score is None:
        return "-"
    from drumline.display.comparison import of_fewer
    from drumline.display.glyphs import score as written

    text, fewer = written(score["iqm"]), of_fewer(score["runs"], runs)
    if score["low"] is None:
        return f"{text}{fewer}"
    return f"{text} [{written(score['low'])}, {written(score['high'])}]{fewer}"


def _number(record: dict[str, Any] | None, name: str) -> str:
    if record is None or record[name] is None:
        return "-"
    from drumline.display.glyphs import score as written

    return written(record[name])
