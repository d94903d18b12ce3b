"""The measurements of low-rank noise: what they compare, and what their rows say."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import load_script


def test_every_way_is_measured_beside_the_plain_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script: Any = load_script("throughput", "low_rank")
    monkeypatch.delitem(sys.modules, "low_rank_module", raising=False)  # which it makes again
    words = [
        "--sizes=1700",
        "--width=40",
        "--members=5",
        "--rows=2,3",
        "--turns=2",
        "--rank=2",
        "--calls=3",
    ]
    out = tmp_path / "rows.csv"
    monkeypatch.setattr(sys, "argv", [script.__file__, f"--out={out}", *words])
    script.main()
    with open(out, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["way"] for row in rows] == ["plain", "low_rank", "alone", "full_rank"] * 2
    assert {row["parameters"] for row in rows} == {"1640"}
    for row in rows:
        low, middle, high = (float(row[f"share_of_plain{end}"]) for end in ("_low", "", "_high"))
        assert 0.0 < low <= middle <= high
        assert row["way"] != "plain" or middle == 1.0


def test_members_that_differ_from_those_alone_are_not_measured(monkeypatch: pytest.MonkeyPatch):
    script: Any = load_script("throughput", "low_rank")
    monkeypatch.delitem(sys.modules, "low_rank_module", raising=False)  # which it makes again
    monkeypatch.setattr(script, "SCALE", 1.0)
    other = iter(range(99))
    monkeypatch.setattr(script, "generation_keys", lambda *of: [next(other)] * 9)
    with pytest.raises(RuntimeError, match="members of one call differ by"):
        script.ways_of(script.place_of(20, 2), 20, 1, 4, 3)


def test_the_interval_is_of_the_median():
    script: Any = load_script("throughput", "low_rank")
    middle, low, high = script.interval(np.array([1.0, 2.0, 3.0, 4.0, 100.0]))
    assert (middle, low <= 3.0 <= high, high <= 100.0) == (3.0, True, True)


def test_kinds_of_noise_learn_to_sort_and_rows_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    script: Any = load_script("learning", "low_rank_sorting")
    out = tmp_path / "rows.csv"
    words = [script.__file__, f"--out={out}", "--steps=200"]
    monkeypatch.setattr(sys, "argv", [*words, "--seeds=100"])
    script.main()
    monkeypatch.setattr(sys, "argv", [*words, "--seeds=100,101"])
    script.main()
    said = capsys.readouterr().out
    assert said.count("'seed': 100") == said.count("'seed': 101") == len(script.KINDS)
    with open(out, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 2 * len(script.KINDS)
    assert all(0.0 <= float(row["objective"]) <= 1.0 for row in rows)
