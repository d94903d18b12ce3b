"""The ablation of AES-RL: its cells, its summary, and that no run is made twice or misread."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "learning" / "aes_ablation.py"
TINY = (
    *("warmup-steps=20", "mean-evaluations=1", "replay-size=200", "batch-size=8", "hidden=8"),
    *("critic-batches=5", "evaluate-every=4", "evaluate-episodes=2", "concurrency=2"),
)


@pytest.fixture(scope="module")
def ablation() -> Any:
    return load_script("learning", "aes_ablation")


def test_the_grid_has_every_legal_pair_of_rules_and_no_other(ablation: Any):
    cells = ablation.grid(
        ["relative", "rank"], ["welford-adaptive", "rank"], [0.0, 0.5, 1.0], ["async", "sync"]
    )
    pairs = {(cell.mean_rule, cell.variance_rule) for cell in cells}
    assert pairs == {("relative", "welford-adaptive"), ("relative", "rank"), ("rank", "rank")}
    assert len(cells) == len({cell.name for cell in cells}) == 3 * 3 * 2


def test_one_number_varies_at_a_time_around_the_published_setting(ablation: Any):
    settings = {"fitness_range": 160.0, "control_slope": 50.0, "welford_samples": 10.0}
    base, *changed = ablation.sensitivity(settings, 0.5, "async", [0.5, 1.0])
    assert base.name == "relative/welford-adaptive p=0.5 async"
    assert [dict(cell.changed) for cell in changed] == [
        {"fitness_range": 80.0},
        {"control_slope": 25.0},
        {"welford_samples": 5.0},
        {"fitness_baseline": -80.0},
        {"welford_samples": 10.0},
        {"fitness_baseline": -160.0},
    ]
    assert changed[2].flags[1] == "--variance-rule=welford-fixed"
    assert changed[3].flags[0] == "--mean-rule=absolute"


def test_what_a_cell_sets_goes_before_the_flags_of_all_runs(
    ablation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told: list[dict[str, str]] = []

    def note(folder: Path, method: str, env: str, flags: list[str], layout: list[str]) -> None:
        told.append(dict(flag.removeprefix("--").split("=") for flag in flags))  # the last counts

    monkeypatch.setattr(ablation, "bring_to_end", note)
    monkeypatch.setattr(ablation, "outcome", lambda folder: {"final_score": 1.0})
    monkeypatch.setattr(ablation, "keep", lambda table, out: None)
    words = [f"--runs={tmp_path}", f"--out={tmp_path / 'a.csv'}", "--env=InvertedPendulum-v5"]
    words += ["--seeds", "0", "--shares", "--factors", "0.5", "--total-steps=9", "--flags"]
    words += ["fitness-range=400", "p-desired=0.1", "total-steps=7"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    ablation.main()
    assert [float(flags["fitness-range"]) for flags in told] == [400, 200, 400, 400, 400]
    assert float(told[-1]["fitness-baseline"]) == -200
    assert {(flags["p-desired"], flags["total-steps"]) for flags in told} == {("0.5", "9")}


def row(
    cell: str, seed: int, means: str, seconds: str, share: str = "0.5", flags: str = ""
) -> dict[str, str]:
    final = means.rpartition(";")[2]
    return {
        "env": "E",
        "total_steps": "9",
        "flags": flags,
        "cell": cell,
        "p_desired": share,
        "seed": str(seed),
        "final_score": final,
        "largest_drawdown": "1.0",
        "virtual_seconds": "4.0",
        "wall_seconds": "8.0",
        "evaluation_means": means,
        "evaluation_env_steps": "4;9",
        "evaluation_virtual_seconds": seconds,
        "evaluation_wall_seconds": seconds,
    }


def test_cells_are_compared_at_budgets_that_every_rival_has_spent(ablation: Any):
    slow = [row("sync", 0, "1.0;5.0", "3;8"), row("sync", 1, "3.0;7.0", "3;9")]
    fast = [row("async", 0, "2.0;4.0", "2;5")]
    other_share = row("none refined", 0, "1.0;1.0", "0;1", "0.0")
    sync, lone, quick = ablation.summary([*slow, *fast, other_share])
    assert (sync["final_iqm"], sync["final_std"], sync["worst_seed"]) == (6.0, 1.414, 5.0)
    assert (sync["budget_virtual_seconds"], sync["iqm_at_equal_virtual_seconds"]) == (5.0, 2.0)
    assert (lone["iqm_at_equal_virtual_seconds"], lone["final_std"]) == (4.0, "")
    assert (quick["budget_virtual_seconds"], quick["iqm_at_equal_virtual_seconds"]) == (1.0, 1.0)
    assert (sync["iqm_at_equal_env_steps"], sync["seeds"]) == (6.0, "0 1")
    late = row("late", 0, "1.0;2.0", "6;7")
    assert ablation.summary([*fast, late])[1]["iqm_at_equal_virtual_seconds"] == ""


def test_runs_of_other_flags_are_a_cell_of_their_own_and_no_rivals(ablation: Any):
    plain = row("async", 0, "2.0;4.0", "2;5")
    slower = row("async", 0, "2.0;8.0", "3;9", flags="batch-size=8")
    one, other = ablation.summary([plain, slower])
    assert (one["flags"], one["final_iqm"], one["seeds"]) == ("", 4.0, "0")
    assert (other["flags"], other["final_iqm"]) == ("batch-size=8", 8.0)
    assert other["budget_virtual_seconds"] == 9.0


@pytest.mark.slow
def test_a_row_is_kept_a_run_is_read_and_a_stopped_one_goes_on(
    ablation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = [f"--runs={tmp_path}", f"--out={tmp_path / 'a.csv'}", "--total-steps=300", "--means"]
    words += ["relative", "--variances", "welford-adaptive", "--shares", "0.5", "--factors"]
    words += ["--env=CartPole-v1", "--seeds", "0", "--flags", *TINY]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    ablation.main()
    first, second = rows(tmp_path / "a.csv")
    assert (first["schedule"], second["schedule"]) == ("async", "sync")
    assert float(second["es_idle_after"]) > 0.0 == float(first["es_idle_after"])
    # The CSV alone is enough for a row that is there, …
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    lost, stopped = folders
    aside = lost.rename(tmp_path / "aside")
    # … a run whose last policy was not evaluated was stopped, …
    last = stopped / "policy-last.json"
    last.write_text(json.dumps({**json.loads(last.read_text()), "evaluation_mean": None}))
    kept = (tmp_path / "a.csv").read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(kept[:2]))
    ablation.main()
    again = rows(tmp_path / "a.csv")
    assert again[0] == first
    # … and comes to the same, wall-clock time aside.
    assert {k: v for k, v in again[1].items() if "wall" not in k} == {
        k: v for k, v in second.items() if "wall" not in k
    }
    assert not lost.exists()
    assert len(rows(tmp_path / "a_summary.csv")) == 2
    # A run that is finished is read, not carried out, …
    (tmp_path / "a.csv").write_text("".join(kept[:2]))
    made = (stopped / "metrics.csv").stat().st_mtime_ns
    ablation.main()
    assert len(rows(tmp_path / "a.csv")) == 2
    assert (stopped / "metrics.csv").stat().st_mtime_ns == made
    # … and not for a command that tells its runs something else.
    monkeypatch.setattr(sys, "argv", [*sys.argv, "discount=0.5"])
    aside.rename(lost)
    with pytest.raises(SystemExit, match=r"\(discount is 0.99 there and 0.5 here\)"):
        ablation.main()
    assert len(rows(tmp_path / "a.csv")) == 2


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))
