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


def drumline(place: Path, hash_seed: str, *words: str) -> str:
    """Run a command line in a process whose strings are hashed so; returns what it wrote."""
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    command = [sys.executable, "-m", "drumline", *words]
    done = subprocess.run(
        command, cwd=place, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


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
