"""The ablation of HTS-RL: cells are legal, a run is read once, cells are summed up over seeds."""

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

from drumline.recipes.methods import find_method


@pytest.fixture(scope="module")
def ablation() -> Any:
    return load_script("learning", "hts_ablation")


def test_every_cell_is_a_method_with_legal_flags(ablation: Any):
    for name, cell in ablation.cells(4, 2, 16, [1, 16], 4).items():
        known = {*find_method(cell.method).config.__dataclass_fields__}
        words = [flag.removeprefix("--").partition("=")[0] for flag in cell.flags]
        assert {word.replace("-", "_") for word in words} <= known, name


def test_runs_are_made_once_and_rows_of_other_cells_stay(
    ablation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, runs = tmp_path / "table.csv", tmp_path / "runs"
    common = [ablation.__file__, "--runs", str(runs), "--out", str(out), "--total-steps", "512"]
    common += ["--num-envs", "4", "--alpha", "16", "--epochs", "1", "--evaluate-episodes", "2"]

    def table(*words: str) -> list[dict[str, str]]:
        monkeypatch.setattr(sys, "argv", [*common, *words])
        ablation.main()
        return [*csv.DictReader(out.read_text().splitlines())]

    first = table("--cells", "hts ppo decoupled", "--seeds", "0", "1")
    assert [row["seed"] for row in first] == ["0", "1"]
    made = {path: path.stat().st_mtime_ns for path in runs.rglob("metrics.csv")}
    both = table("--cells", "hts a2c delayed", "--seeds", "0")
    assert both[:2] == first
    again = table("--cells", "hts ppo decoupled", "--seeds", "0", "1")
    assert len(again) == 3
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    with pytest.raises(
        SystemExit, match=r"-s0 has .*\(epochs is 1 there and 2 here\): give another"
    ):
        table("--cells", "hts ppo decoupled", "--seeds", "0", "--epochs", "2")
    assert [*csv.DictReader(out.read_text().splitlines())] == again
    summary = out.with_stem("table_summary").read_text().splitlines()
    cells = {row["cell"]: row for row in csv.DictReader(summary)}
    assert cells["hts ppo decoupled"]["seeds"] == "0 1"
    scores = sorted(float(row["final_score"]) for row in first)
    low, high = map(float, cells["hts ppo decoupled"]["final_score_interval"].split(" … "))
    assert scores[0] - 0.1 <= low <= high <= scores[1] + 0.1
    assert cells["hts a2c delayed"]["final_score_interval"] == ""
