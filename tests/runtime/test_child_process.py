"""Child processes begin as a plain interpreter does."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from drumline.runtime import child_process
from drumline.runtime.child_process import ChildProcess

PROGRAM = """
import json, sys
def main():
    with open(sys.argv[1], "w") as file:
        json.dump(sys.path, file)
"""


def path_of_a_child(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (place / "shows_its_path.py").write_text(PROGRAM)
    here = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(place), here])))
    child = ChildProcess("shows_its_path", [place / "path.json"], ())
    assert child.end(grace_seconds=60.0) == "exit code 0"
    return json.loads((place / "path.json").read_text())


def plain_path() -> list[str]:
    command = [sys.executable, "-P", "-c", "import json, sys; print(json.dumps(sys.path))"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_an_installed_package_does_not_change_the_search_path_of_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_process, "_HERE", sysconfig.get_path("purelib"))
    path = path_of_a_child(tmp_path, monkeypatch)
    assert path == plain_path()
    assert path.index(sysconfig.get_path("stdlib")) < path.index(sysconfig.get_path("purelib"))


def test_a_package_beside_the_search_path_comes_behind_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_process, "_HERE", str(tmp_path / "elsewhere"))
    path = path_of_a_child(tmp_path, monkeypatch)
    stdlib, packages = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    assert path.index(stdlib) < path.index(str(tmp_path / "elsewhere")) < path.index(packages)
    path.remove(str(tmp_path / "elsewhere"))
    assert path == plain_path()
