"""Rows of a campaign's finished runs: one for each run, and one for each of its evaluations."""

import csv
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from campaign_queue import Run
from campaign_work import Checkout
from goals import evaluations, reached
from provenance import processor, write_table

Row = Mapping[str, str]


class Tables(NamedTuple):
    """The two files of a campaign's results."""

    runs: Path
    evaluations: Path

    @staticmethod
    def beside(results: Path) -> "Tables":
        """Return the files in a folder of results."""
        return Tables(results / "campaign_runs.csv", results / "campaign_evaluations.csv")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return a table's rows; none where the file is not there yet."""
    if not path.exists():
        return []
    with open(path, newline="") as lines:
        return list(csv.DictReader(lines))


def record(tables: Tables, run: Run, folder: Path, checkout: Checkout, seconds: float) -> None:
    """Add a finished run's rows, in the place of those that it had before."""
    rows = evaluations(folder)
    score = run.group.score
    curve = [_evaluation(run, folder, row) for row in rows]
    if score is not None and reached(rows, score) is None and float(rows[-1]["mean"]) >= score:
        curve.append(
            {**curve[-1], "mean": f"{confirming(folder, checkout):.6g}", "of": "last again"}
        )
    write_table(tables.evaluations, _with(read_rows(tables.evaluations), curve))
    write_table(tables.runs, _with(read_rows(tables.runs), [_run(run, folder, checkout, seconds)]))


def confirming(folder: Path, checkout: Checkout) -> float:
    """Return the mean of one more evaluation of the last policy, with episodes of its own."""
    config = json.loads((folder / "config.json").read_text())["config"]
    words = ["evaluate", str(folder), "--policy=last", "--seed=1", "--json", "--trust-code"]
    words.append(f"--episodes={config['evaluate_episodes']}")
    done = subprocess.run(
        checkout.drumline(*words), check=True, stdout=subprocess.PIPE, env=checkout.environment
    )
    return fmean(json.loads(done.stdout)["returns"])


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
        "command": " ".join(["drumline train", *run.command()]),
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
