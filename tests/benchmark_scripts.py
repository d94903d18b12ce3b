"""Benchmark scripts as modules, for tests of what they compute."""

import contextlib
import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drumline import cli

DRUMLINE = [sys.executable, "-m", "drumline"]
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load_script(folder: str, name: str) -> Any:
    """Import a script with the folders on the path that it is run with."""
    script = BENCHMARKS / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        patch.syspath_prepend(str(script.parent))
        patch.setitem(sys.modules, name, module)  # for its dataclasses
        spec.loader.exec_module(module)
    return module


def in_this_process(script: Any, patch: pytest.MonkeyPatch) -> None:
    """Let a script's drumline commands run in this process, without workers."""
    elsewhere = subprocess.run

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if command[:3] != DRUMLINE:
            return elsewhere(command, **options)
        inline = [] if "--print-config" in command else ["--pool=inline"]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli.run([*command[3:], *inline]) == 0
        return subprocess.CompletedProcess(command, 0, said.getvalue())

    patch.setattr(script.subprocess, "run", run)
