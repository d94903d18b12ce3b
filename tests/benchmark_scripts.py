"""Benchmark scripts as modules, for tests of what they compute."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

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
