"""Trainings on devices are compared file by file, and every promise on a GPU has its kept rows."""

import csv
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script
from campaigns import FAULTS

from drumline.functional import torch_devices
from drumline.functional.torch_devices import COMPARED
from drumline.recipes.method import COMPARED_ON_A_DEVICE
from drumline.recipes.methods import METHODS

RESULTS = Path(__file__).parents[2] / "benchmarks/results/device_bits.csv"


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script("", "device_bits")


def test_every_promise_on_a_gpu_has_equal_runs_that_were_kept():
    with open(RESULTS, newline="") as lines:
        rows = list(csv.DictReader(lines))
    equal = {(row["method"], row["device"].partition(", cuDNN")[0]) for row in rows}
    assert {row["verdict"] for row in rows} == {"equal"}
    with_device = {name for name, method in METHODS.items() if "device" in method.fields}
    assert with_device > COMPARED_ON_A_DEVICE
    assert {(name, build) for name in COMPARED_ON_A_DEVICE for build in COMPARED} == equal


def test_a_machine_without_a_gpu_is_refused_with_a_sentence(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch_devices, "device_count", lambda: 0)
    monkeypatch.setattr("sys.argv", ["device_bits.py", "--out", str(tmp_path / "table.csv")])
    with pytest.raises(SystemExit, match=r"^nothing can be compared here: --device cuda: torch"):
        script.main()


@pytest.mark.parametrize("changed", ["", "policy-last.safetensors", "replay/0.bin"])
def test_one_byte_of_what_lasts_is_a_difference(script: Any, tmp_path: Path, changed: str):
    runs = [tmp_path / "first", tmp_path / "other"]
    for run in runs:
        (run / "replay").mkdir(parents=True)
        for name in (*script.LASTING, "replay/0.bin"):
            (run / name).write_text("update\n" if name.endswith("prints.csv") else "same")
        (run / "metrics.csv").write_text(run.name)  # has seconds
    if changed:
        (runs[1] / changed).write_text("some")
    assert changed in script.compared(*runs)
    assert bool(script.compared(*runs)) == bool(changed)


@FAULTS
def test_a_case_runs_three_times_and_is_killed_half_way(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = "CartPole-v1 --num-envs=4 --alpha=16 --total-steps=2560 --hidden=8"
    case = script.Case("hts", words, ("--executors=1", "--executors=2"))
    monkeypatch.setitem(script.CASES, "small", case)
    monkeypatch.setattr("sys.argv", [script.__file__])
    row = script.measured("small", "cpu:0", 3, tmp_path)
    assert row["verdict"] == "equal"
    assert row["updates"] == 40
    assert row["seeds"] == "3"
    files = script.lasting(tmp_path / "killed")
    assert set(files) == set(script.lasting(tmp_path / "first")) >= set(script.LASTING[:3])
