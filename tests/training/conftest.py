"""Shape checks of whole runs: once for each config, where a module's `expected` is made."""

import pytest


@pytest.fixture(autouse=True)
def runs_are_checked_once(unchecked_shapes: None) -> None:
    """Runs that others are compared with are made before this, with checks."""
