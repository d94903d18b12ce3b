"""Shape checks of whole runs: once for each config."""

import pytest


@pytest.fixture(autouse=True)
def shapes_of_a_repeated_run_are_not_checked_again(request: pytest.FixtureRequest) -> None:
    """The run that others are compared with is checked; it has the calls that they have."""
    if "expected" in request.fixturenames:
        request.getfixturevalue("unchecked_shapes")
