"""The table of growth: exponents between the two longest runs, and files at 10^8 env steps."""

import csv
from pathlib import Path
from typing import Any

from benchmark_scripts import load_script

growth = load_script("", "growth")


def row(steps: int, what: str, value: float) -> dict[str, Any]:
    return {"method": "es", "env_steps": str(steps), "what": what, "value": str(value)}


def test_exponents_are_of_the_two_longest_runs_and_only_files_are_extrapolated():
    rows = [
        *(row(steps, "metrics.csv_bytes", 100.0 + steps) for steps in (10, 10_000, 100_000)),
        *(row(steps, "checkpoint_bytes", 50.0) for steps in (10_000, 100_000)),
        *(row(steps, "resume_seconds", 2.0) for steps in (10_000, 100_000)),
        *(row(steps, "replay_bytes", 0.0) for steps in (10_000, 100_000)),
        row(10, "card.md_bytes", 1.0),
    ]
    found = {each["what"]: each for each in growth.growth_rows(rows)}
    assert set(found) == {"metrics.csv_bytes", "checkpoint_bytes", "resume_seconds", "replay_bytes"}
    metrics = found["metrics.csv_bytes"]
    assert (metrics["env_steps_1"], metrics["env_steps_2"]) == (10_000, 100_000)
    assert metrics["exponent"] == 0.996
    assert metrics["value_at_1e8"] == 100 + 10**8
    assert found["checkpoint_bytes"]["exponent"] == 0.0
    assert found["checkpoint_bytes"]["value_at_1e8"] == 50.0
    assert found["resume_seconds"]["value_at_1e8"] == ""


def test_rows_of_earlier_runs_are_kept(tmp_path: Path):
    assert growth.kept_rows(tmp_path / "none.csv") == []
    with open(tmp_path / "growth.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["method", "env_steps", "what", "value"])
        writer.writeheader()
        writer.writerow(row(10, "x", 1.0))
    assert growth.kept_rows(tmp_path / "growth.csv") == [row(10, "x", 1.0)]
