"""A terminal in an empty directory."""

from pathlib import Path

import pytest
from typed_commands import Terminal


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return Terminal(capfd)


@pytest.fixture(autouse=True)
def commands_run_without_checks(unchecked_shapes: None) -> None:
    """These tests are about commands."""
