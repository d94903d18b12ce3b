"""When a learning goal was met: read from a run folder."""

import csv
from itertools import pairwise
from pathlib import Path


def evaluations(folder: Path) -> list[dict[str, str]]:
    with open(folder / "evaluations.csv", newline="") as lines:
        return list(csv.DictReader(lines))


def reached(rows: list[dict[str, str]], goal: float) -> dict[str, str] | None:
    """Return the first evaluation that reaches the goal and whose next is not below 0.9 of it."""
    for row, following in pairwise(rows):
        if float(row["mean"]) >= goal and float(following["mean"]) >= 0.9 * goal:
            return row
    return None


def wall_at(folder: Path, update: str) -> str:
    """Return the wall-clock seconds of an update, or nothing if it is not there."""
    with open(folder / "metrics.csv", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["update"] == update:
                return f"{float(row['wall_seconds']):.0f}"
    return ""
