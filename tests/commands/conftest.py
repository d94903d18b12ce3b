"""A terminal in an empty directory."""

from collections.abc import Iterator
from pathlib import Path

import jaxtyping
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
def shapes_are_checked_in_the_rooms_of_the_formulas() -> Iterator[None]:
    """Checks take half of a small run, and these tests are about commands."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
