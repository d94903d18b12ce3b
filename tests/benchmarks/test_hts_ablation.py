"""The ablation of HTS-RL: cells are legal, a run is read once, cells are summed up over seeds."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import BENCHMARKS, in_this_process, load_script

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
    in_this_process(sys.modules["run_folders"], monkeypatch)

    def table(*words: str) -> list[dict[str, str]]:
        monkeypatch.setattr(sys, "argv", [*common, *words])
        ablation.main()
        return [*csv.DictReader(out.read_text().splitlines())]

    first = table("--cells", "hts ppo truncated-is", "--seeds", "0", "1")
    assert [row["seed"] for row in first] == ["0", "1"]
    made = {path: path.stat().st_mtime_ns for path in runs.rglob("metrics.csv")}
    both = table("--cells", "hts a2c delayed", "--seeds", "0")
    assert both[:2] == first
    again = table("--cells", "hts ppo truncated-is", "--seeds", "0", "1")
    assert len(again) == 3
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    with pytest.raises(
        SystemExit, match=r"-s0 has .*\(epochs is 1 there and 2 here\): give another"
    ):
        table("--cells", "hts ppo truncated-is", "--seeds", "0", "--epochs", "2")
    assert [*csv.DictReader(out.read_text().splitlines())] == again
    summary = out.with_stem("table_summary").read_text().splitlines()
    cells = {row["cell"]: row for row in csv.DictReader(summary)}
    assert cells["hts ppo truncated-is"]["seeds"] == "0 1"
    scores = sorted(float(row["final_score"]) for row in first)
    low, high = map(float, cells["hts ppo truncated-is"]["final_score_interval"].split(" … "))
    assert scores[0] - 0.1 <= low <= high <= scores[1] + 0.1
    assert cells["hts a2c delayed"]["final_score_interval"] == ""


@pytest.fixture
def told(ablation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what carries out one cell at once and returns the table."""
    out = tmp_path / "table.csv"
    common = [ablation.__file__, "--runs", str(tmp_path), "--out", str(out), "--seeds", "0"]
    common += ["--cells", "hts ppo truncated-is", "--total-steps", "128"]
    monkeypatch.setattr(ablation, "bring_to_end", lambda *_: None)
    outcome = {"final_score": "1.0", "training_return": "2.0"}
    monkeypatch.setattr(ablation, "outcome", lambda folder: outcome)

    def table(*words: str, before: str | None = None) -> list[dict[str, str]]:
        if before is not None:
            out.write_text(before)
        monkeypatch.setattr(sys, "argv", [*common, *words])
        ablation.main()
        return [*csv.DictReader(out.read_text().splitlines())]

    return table


@pytest.mark.parametrize("flag", ["--num-envs", "--evaluate-episodes"])
def test_rows_of_a_command_that_differs_in_one_number_stay(
    told: Callable[..., Any], tmp_path: Path, flag: str
):
    told(flag, "4")
    rows = told(flag, "2")
    assert [row[flag.removeprefix("--").replace("-", "_")] for row in rows] == ["4", "2"]
    summary = (tmp_path / "table_summary.csv").read_text().splitlines()
    assert len([*csv.DictReader(summary)]) == 2


def test_the_kept_table_can_be_gone_on_with_and_an_older_one_is_refused(told: Callable[..., Any]):
    kept = (BENCHMARKS / "results" / "hts_ablation.csv").read_text()
    rows = told(before=kept)
    assert rows[:-1] == [*csv.DictReader(kept.splitlines())]
    assert {row["num_envs"] for row in rows if row["env"] == "HalfCheetah-v5"} == {"16"}
    with pytest.raises(SystemExit, match="no column evaluate_episodes, num_envs: give another"):
        told(before="env,total_steps,cell,flags,seed\nCartPole-v1,9,a2c,,0\n")
