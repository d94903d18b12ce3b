"""The table and the chart of `limits.py`, made from its rows alone."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.display.plots import write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, str]
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "limits.csv"
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "limits.png"
NONE = "Not measured yet."
MOST_BUSY = 0.1
"""Share of the cores' time that others may use for a row to count."""
_PART = re.compile(r"(<!-- begin limits -->\n).*?(<!-- end limits -->)", re.DOTALL)


def read_rows(results: Path) -> list[Row]:
    if not results.exists():
        return []
    with open(results, newline="") as lines:
        return list(csv.DictReader(lines))


def write_page(rows: Sequence[Row], page: Path, chart: Path) -> None:
    """Put the table, and below it the chart, between the page's markers."""
    text = page.read_text(encoding="utf-8")
    if not _PART.search(text):
        raise ValueError(f"{page.name} has no <!-- begin limits --> … <!-- end limits -->")
    picture = f"![Ratios to the bound and shares of the physical limit](images/{chart.name})"
    lines = [*table(rows), *(["", picture, "", machines(rows)] if rows else [])]
    made = "\n".join(lines) + "\n"
    page.write_text(_PART.sub(lambda part: part[1] + made + part[2], text), encoding="utf-8")


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table's lines; without rows a sentence that says so."""
    if not rows:
        return [NONE]
    lines = [
        "| path | ours | bound | ratio (min … max) | physical limit | share | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ends = f" ({row['ratio_min']} … {row['ratio_max']})" if row["ratio_min"] else ""
        cells = [
            row["path"],
            f"{_figure(row['ours'])} {row['unit']}",
            _kind(row, "bound"),
            row["ratio"] + ends,
            _kind(row, "limit"),
            row["share"],
            _goal(row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def machines(rows: Sequence[Row]) -> str:
    """Return a sentence on where, from which code and beside which load the rows were measured."""
    places = " and ".join(sorted({row["machine"] for row in rows}))
    codes = ", ".join(sorted({f"{row['commit']} ({row['tree']})" for row in rows}))
    load = max(float(row["others_busy"]) for row in rows)
    used = f"{load:.0%} of the cores' time"
    return f"{places}; code {codes}; others used at most {used} just before a path."


def write_chart(rows: Sequence[Row], image: Path) -> None:
    """Write the chart as a PNG; without rows there is none."""
    if rows:
        write_picture(chart(rows), image)


def chart(rows: Sequence[Row]) -> "Figure":
    """Return two bars a path: black or white, so that they differ in print; a diamond is a goal."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The background is opaque and white: on a dark page the picture is a light card.
    figure = Figure(figsize=(10, 1.2 + 0.5 * len(rows)), dpi=110, layout="constrained")
    figure.set_facecolor("white")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    bars = (("ratio", "ratio to the bound", -0.2), ("share", "share of the physical limit", 0.2))
    looks = {"ratio": {"color": "#0072B2"}, "share": {"color": "#dddddd", "hatch": "///"}}
    for column, label, place in bars:
        known = [(at + place, float(r[column])) for at, r in enumerate(rows) if r[column]]
        places, values = [at for at, _ in known], [value for _, value in known]
        axis.barh(places, values, 0.38, label=label, edgecolor="black", lw=0.6, **looks[column])
        for at, value in known:
            axis.text(value, at, f" {value:.2f}", va="center")
        goals = [(at + place, r[f"goal_{column}"]) for at, r in enumerate(rows)]
        aims = [(float(goal), at) for at, goal in goals if goal]
        name = "goal" if column == "ratio" else None
        ends, places = zip(*aims, strict=True) if aims else ((), ())
        axis.scatter(
            ends, places, 36, "black", marker="D", label=name, zorder=3, lw=0.8, edgecolors="white"
        )
    axis.axvline(1.0, color="black", lw=1.0, ls="--")
    axis.set_yticks(range(len(rows)), [row["path"] for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.margins(x=0.08)
    axis.set_xlim(left=0.0)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def _kind(row: Row, column: str) -> str:
    kind = row[f"{column}_kind"]
    return f"{kind}: {_figure(row[column])}" if kind else ""


def _figure(value: str) -> str:
    """Return a number as people write it: 12,340 and 0.047."""
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 1000 else value


def _goal(row: Row) -> str:
    """Return each goal, and whether its number meets it; beside other work there is no verdict."""
    if (busy := float(row["others_busy"])) > MOST_BUSY:
        return f"measured beside other work ({busy:.0%} of the cores' time)"
    parts = []
    for column in ("ratio", "share"):
        if goal := row[f"goal_{column}"]:
            met = "met" if float(row[column]) >= float(goal) else "not met"
            parts.append(f"{column} ≥ {goal}: {met}")
    return "; ".join(parts)
