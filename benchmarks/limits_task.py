"""A path's time and folder, and the rows that it makes."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from limits_page import Row

SCRIPTS = Path(__file__).resolve().parent / "throughput"


class Task(NamedTuple):
    """The time that a path has, as a factor of what it is meant to have, and a folder."""

    scale: float
    folder: Path

    def seconds(self, planned: float) -> str:
        return f"{planned * min(1.0, max(0.05, self.scale)):.2f}"

    def times(self, planned: int) -> str:
        return str(max(1, round(planned * self.scale)))

    def run(self, script: str, *words: str) -> list[dict[str, str]]:
        """Return the rows of a script's table."""
        out = Path(tempfile.mkdtemp(dir=self.folder)) / "table.csv"
        command = [sys.executable, str(SCRIPTS / f"{script}.py"), *words]
        subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
        with open(out, newline="") as lines:
            return list(csv.DictReader(lines))


def row(path: str, ours: float, unit: str, **more: object) -> Row:
    """Return a row; `bound` and `limit` are in the unit of `ours`, or times where `ours` is one."""
    found = {"path": path, "ours": f"{ours:.4g}", "unit": unit}
    return {**found, **{k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in more.items()}}


def spread(found: dict[str, str], name: str) -> dict[str, object]:
    """Return the ratio of a script's row, with its least and its greatest of several."""
    names = (name if name in found else f"{name}_median", f"{name}_min", f"{name}_max")
    keys = ("ratio", "ratio_min", "ratio_max")
    if found.get("rounds") == "1":
        return {"ratio": found[names[0]]}
    return {key: found[column] for key, column in zip(keys, names, strict=True)}
