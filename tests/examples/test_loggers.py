"""The examples that log to other people's trackers, with their real packages and no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typed_commands import environ

import drumline

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.slow

MLFLOW = """
import log_to_mlflow
import mlflow

run = log_to_mlflow.main(total_steps=12_000, out="run")
client = mlflow.MlflowClient()
(logged,) = mlflow.search_runs(experiment_names=["drumline"], output_format="list")
assert logged.info.status == "FINISHED"
assert logged.data.params["total_steps"] == "12000"
history = client.get_metric_history(logged.info.run_id, "episode_return_mean")
rows = run.metrics
assert [m.step for m in history] == [int(row["env_steps"]) for row in rows]
assert [m.value for m in history] == [row["episode_return_mean"] for row in rows]
assert client.get_metric_history(logged.info.run_id, "evaluation_mean")
assert logged.data.metrics["final_return"] > 8
names = [file.path for file in client.list_artifacts(logged.info.run_id)]
assert names == ["policy-last.json", "policy-last.safetensors"], names
"""
WANDB = """
import json
from pathlib import Path

import log_to_wandb

run = log_to_wandb.main(total_steps=12_000, out="run")
(file,) = Path("wandb").glob("offline-run-*/run-*.wandb")
data = file.read_bytes()  # records whose values are JSON
for row in run.metrics:
    assert json.dumps(row["episode_return_mean"]).encode() in data, row["update"]
assert b"evaluation_mean" in data
assert b"final_return" in data
assert (file.parent / "files" / "policy-last.safetensors").is_file()
"""
TRACKIO = """
import log_to_trackio
from trackio.sqlite_storage import SQLiteStorage

run = log_to_trackio.main(total_steps=12_000, out="run")
(name,) = SQLiteStorage.get_runs("drumline")
rows = SQLiteStorage.get_logs("drumline", name)
updates = [row for row in rows if "episode_return_mean" in row]
assert [u["step"] for u in updates] == [int(row["env_steps"]) for row in run.metrics]
assert [u["episode_return_mean"] for u in updates] == [
    row["episode_return_mean"] for row in run.metrics
]
assert [row for row in rows if "evaluation_mean" in row]
"""


@pytest.mark.parametrize(
    ("package", "script"), [("mlflow", MLFLOW), ("wandb", WANDB), ("trackio", TRACKIO)]
)
def test_a_run_is_logged_as_its_files_have_it(package: str, script: str, tmp_path: Path):
    """In a process of its own: these packages start threads and processes, and change logging."""
    places = [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    if package == "trackio":  # it takes an older Pillow than the pinned one
        places.insert(0, str(installed_aside("trackio", "pillow<13", tmp_path)))
    paths = os.pathsep.join(places)
    changes = {"PYTHONPATH": paths, "TRACKIO_DIR": str(tmp_path / "trackio")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**environ(), **changes, "WANDB_SILENT": "true"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert drumline.load(tmp_path / "run").metrics


def installed_aside(package: str, older: str, tmp_path: Path) -> Path:
    """Install a package that excludes one of the pinned versions into a folder of its own."""
    pins = (EXAMPLES.parent / "constraints.txt").read_text().splitlines()
    kept = [pin for pin in pins if not pin.startswith(older.partition("<")[0])]
    constraints, folder = tmp_path / "constraints.txt", tmp_path / "packages"
    constraints.write_text("\n".join(kept))
    words = ["install", "-q", "--target", str(folder), "-c", str(constraints), older, package]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{package} cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder
