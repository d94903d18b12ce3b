"""Whole runs of the examples: the formulas that they share with Drumline are checked elsewhere."""

import pytest


@pytest.fixture(autouse=True)
def examples_run_without_checks(unchecked_shapes: None) -> None:
    """Checks of shapes take half of a small run."""
