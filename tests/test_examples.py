"""Every example runs and does what it says."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.usefixtures("unchecked_shapes")
def test_ask_and_tell_find_the_target(capsys: pytest.CaptureFixture[str]):
    found = runpy.run_path(str(EXAMPLES / "ask_tell.py"))
    assert abs(found["strategy"].parameters - found["TARGET"]).max() < 0.15
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["OpenAIES", "ARS"]
