"""Python's hashes of strings are the same in every process of every run: the order of sets is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import FAULTS

SMALL = ["--hidden", "4", "--evaluate-episodes", "2"]
REPLAY = ["--batch-size", "4", "--replay-size", "60"]
METHODS = {
    "es": ["--total-steps=60", "--population-size=4", "--noise-table-size=4096"],
    "td3": [*REPLAY, "--total-steps=90", "--steps-per-update=30", "--random-steps=30"],
    "aes": [*REPLAY, "--total-steps=60", "--warmup-steps=20", "--mean-evaluations=0"],
}


def drumline(place: Path, hash_seed: str, *words: str, script: str = "") -> str:
    """Run a command line in a process whose strings are hashed so; returns what it wrote."""
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    run = [script] if script else ["-m", "drumline"]
    command = [sys.executable, *run, *words]
    done = subprocess.run(
        command, cwd=place, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


CALLS = """
import sys
import drumline

method, env, *more = sys.argv[1:]
settings = {"num_envs": 2, "alpha": 8, "minibatches": 1, "epochs": 1} if method == "ppo" else {}
if method == "td3":
    settings = {"steps_per_update": 30, "random_steps": 30, "batch_size": 4, "replay_size": 60}
if method.startswith("es"):
    settings = {"population_size": 4, "noise_table_size": 4096, "workers": "inline"}
if method == "es, a reference batch":
    settings |= {"normalization": "virtual-batch", "workers": 1}
if more:
    settings["promise"] = False
small = {"total_steps": 60, "hidden": (4,), "evaluate_episodes": 1}
try:
    drumline.train(method.partition(",")[0], env, **small, **settings)
except drumline.ImpureEnvironment as error:
    print(error)
"""


@pytest.mark.parametrize(
    "method", ["td3", pytest.param("ppo", marks=FAULTS), "es", "es, a reference batch"]
)
def test_a_call_from_python_refuses_an_environment_that_follows_its_hashes(
    method: str, tmp_path: Path
):
    (tmp_path / "calls.py").write_text(CALLS)
    order = "impure_environment:SetOrder"

    def said(hash_seed: str, *words: str) -> str:
        return drumline(tmp_path, hash_seed, *words, script="calls.py")

    refused = said("1", method, order)
    assert "run in a process with other string hashes, gave another observation at" in refused
    assert not (tmp_path / "runs").exists()
    assert "string hashes" not in said("0", method, order)
    assert "string hashes" not in said("1", method, "impure_environment:Counting")
    assert "string hashes" not in said("1", method, order, "without the promise")


@FAULTS
@pytest.mark.parametrize("method", METHODS)
def test_an_environment_that_goes_through_sets_has_the_same_bytes_everywhere(
    method: str, tmp_path: Path
):
    words = ["train", method, "impure_environment:SetOrder", *SMALL, *METHODS[method], "--quiet"]
    # 1 and 4 put the five words into different orders
    drumline(tmp_path, "1", *words, "--workers=1", "--out=one")
    drumline(tmp_path, "4", *words, "--pool=inline", "--out=two")
    for name in ("fingerprints.csv", "episodes.csv", "evaluations.csv"):
        one, two = ((tmp_path / run / name).read_bytes() for run in ("one", "two"))
        assert one == two
