"""Policy lag of an asynchronous learner beside the claim: the script's rows."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_a_row_has_the_measured_lag_beside_what_its_own_rates_predict(tmp_path: Path):
    script, out = BENCHMARKS / "throughput" / "hts_lag.py", tmp_path / "lag.csv"
    words = ["--out", str(out), "--envs", "3", "--utilizations", "0.5", "--seconds", "1"]
    subprocess.run([sys.executable, str(script), *words], check=True, stdout=subprocess.DEVNULL)
    with open(out, newline="") as lines:
        (row,) = csv.DictReader(lines)
    rho = float(row["utilization"])
    assert 0.0 < rho < 1.0
    assert int(row["updates"]) > 0
    # ρ / (1 − ρ), and Little's law: updates a second × 0.04 s of a step.
    assert float(row["claimed_lag"]) == pytest.approx(rho / (1.0 - rho), abs=0.05)
    own = float(row["updates_within_a_step"])
    assert own == pytest.approx(0.04 * float(row["updates_per_second"]), abs=0.02)
    measured, predicted = float(row["measured_lag"]), float(row["predicted_lag"])
    assert own < predicted <= own + float(row["claimed_lag"]) + 0.01
    assert float(row["measured_over_predicted"]) == pytest.approx(measured / predicted, abs=0.01)
    # Three environments, two transitions each in the queue: none is as old as all ever made.
    assert 0.0 < measured <= float(row["largest_lag"]) < int(row["updates"])
