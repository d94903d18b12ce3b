"""Cases that `make test` tries, and those that wait for `make test-faults` or `make test-slow`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

FAULTS = pytest.mark.faults
SLOW = pytest.mark.slow


def cases(
    every: Iterable[Any], *, quick: Collection[Any], later: pytest.MarkDecorator = FAULTS
) -> list[Any]:
    """Return every case for `parametrize`; those not in `quick` belong to the suite `later`."""
    listed = list(every)
    unknown = [case for case in quick if case not in listed]
    assert not unknown, f"no such cases: {unknown}"
    return [case if case in quick else _later(case, later) for case in listed]


def _later(case: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
