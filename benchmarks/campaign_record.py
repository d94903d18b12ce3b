"""Rows of a campaign's finished runs: one for each run, and one for each of its evaluations.

Runs of AES-RL have one more, with what either kind of individual did; scripts have tables of their
own.
"""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from campaign_queue import Run
from campaign_work import Checkout
from goals import confirming, evaluations, reached
from provenance import processor, write_table

from drumline.display.contributions import KINDS, contribution, read_individuals

Row = Mapping[str, str]


class Tables(NamedTuple):
    """The files of a campaign's results."""

    runs: Path
    evaluations: Path
    individuals: Path

    @staticmethod
    def beside(results: Path) -> "Tables":
        """Return the files in a folder of results."""
        names = ("runs", "evaluations", "individuals")
        return Tables(*(results / f"campaign_{name}.csv" for name in names))

    def of_script(self, name: str) -> Path:
        """Return the file with a script's rows."""
        return self.runs.parent / name


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return a table's rows; none where the file is not there yet."""
    if not path.exists():
        return []
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def record(tables: Tables, run: Run, folder: Path, checkout: Checkout, seconds: float) -> None:
    """Add a finished run's rows, in the place of those that it had before."""
    if run.group.table:
        return _record_script(tables.of_script(run.group.table), run, folder, seconds)
    rows = evaluations(folder)
    score = run.group.score
    curve = [_evaluation(run, folder, row) for row in rows]
    last = score is not None and reached(rows, score) is None and float(rows[-1]["mean"]) >= score
    # The score of these is another method's, which may be recorded later.
    if last or (run.group.method == "aes" and run.group.part in ("aes-virtual", "aes-two-cores")):
        again = confirming(folder, checkout.drumline(), checkout.environment)
        curve.append({**curve[-1], "mean": f"{again:.6g}", "of": "last again"})
    write_table(tables.evaluations, _with(read_rows(tables.evaluations), curve))
    if individuals := _individuals(run, folder):
        kept = _with(read_rows(tables.individuals), [individuals])
        write_table(tables.individuals, kept)
    write_table(tables.runs, _with(read_rows(tables.runs), [_run(run, folder, checkout, seconds)]))
    return None


def _record_script(table: Path, run: Run, folder: Path, seconds: float) -> None:
    """Add the rows that a script left in its folder, under the run that they are of."""
    own = {
        "group": run.group.name,
        "seed": str(run.seed),
        "run_seconds": f"{seconds:.0f}",
        "command": run.command_line,
    }
    key = (own["group"], own["seed"])
    kept = [row for row in read_rows(table) if (row["group"], row["seed"]) != key]
    new = [{**row, **own} for row in read_rows(folder / "rows.csv")]
    every = sorted([*kept, *new], key=lambda row: (row["group"], int(row["seed"])))
    write_table(table, every)


def _individuals(run: Run, folder: Path) -> dict[str, str]:
    """Return what either kind of individual did, of runs that have kinds."""
    if not {"kind", "step_size", "idle_virtual_seconds"} <= set(_metrics(folder)[0]):
        return {}
    found = read_individuals(folder)
    row = {
        "group": run.group.name,
        "part": run.group.part,
        "env": run.group.env,
        "seed": str(run.seed),
        "env_steps": _metrics(folder)[-1]["env_steps"],
    }
    stds = [each["sampling_std"] for each in _metrics(folder) if each["kind"] in {"0.0", "1.0"}]
    row["first_sampling_std"], row["last_sampling_std"] = (
        f"{float(std):.5g}" for std in (stds[0], stds[-1])
    )
    for kind in KINDS:
        for name, value in contribution(found, kind)._asdict().items():
            row[f"{kind.lower()}_{name}"] = "" if math.isnan(value) else f"{value:.5g}"
    return row


def _with(rows: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Return the rows sorted by group, seed and env steps, without older ones of the same runs."""
    replaced = {(row["group"], row["seed"]) for row in new}
    kept = [row for row in rows if (row["group"], row["seed"]) not in replaced]
    order = ("group", "seed", "env_steps")
    every = [*kept, *new]
    return sorted(every, key=lambda row: (row[order[0]], int(row[order[1]]), int(row[order[2]])))


def _evaluation(run: Run, folder: Path, row: Row) -> dict[str, str]:
    return {
        "group": run.group.name,
        "seed": str(run.seed),
        "env_steps": row["env_steps"],
        "mean": f"{float(row['mean']):.6g}",
        "virtual_seconds": _at(folder, row["update"], "virtual_seconds"),
        "wall_seconds": _at(folder, row["update"], "wall_seconds"),
        "of": "",
    }


def _run(run: Run, folder: Path, checkout: Checkout, seconds: float) -> dict[str, str]:
    document = json.loads((folder / "config.json").read_text())
    rows = evaluations(folder)
    means = [float(row["mean"]) for row in rows]
    return {
        "group": run.group.name,
        "part": run.group.part,
        "method": run.group.method,
        "env": run.group.env,
        "seed": str(run.seed),
        "env_steps": rows[-1]["env_steps"],
        "final_mean": f"{means[-1]:.6g}",
        "best_mean": f"{max(means):.6g}",
        "last_training_return": _last(folder, "episode_return_mean"),
        "evaluation_episodes": str(document["config"]["evaluate_episodes"]),
        "seconds_beside_other_runs": f"{seconds:.0f}",
        "promise": "yes" if not document["promise"].startswith("no promise") else "no",
        "machine": processor(),
        "versions": " ".join(f"{name}={version}" for name, version in document["versions"].items()),
        "commit": checkout.sources.name,
        "command": run.command_line,
    }


def _at(folder: Path, update: str, column: str) -> str:
    for row in _metrics(folder):
        if row["update"] == update:
            return row.get(column, "")
    return ""


def _last(folder: Path, column: str) -> str:
    return f"{float(_metrics(folder)[-1][column]):.6g}"


def _metrics(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="") as lines:
        return list(csv.DictReader(lines))
