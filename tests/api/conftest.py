"""Calls from Python run as users have them, without checks of shapes."""

import pytest


@pytest.fixture(autouse=True)
def calls_run_without_checks(unchecked_shapes: None) -> None:
    """These tests are about calls."""
