"""Cases that `make test` tries, and those that wait for `make test-faults`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

FAULTS = pytest.mark.faults


def cases(every: Iterable[Any], *, quick: Collection[Any]) -> list[Any]:
    """Return every case for `parametrize`; those not in `quick` belong to the fault campaigns."""
    listed = list(every)
    unknown = [case for case in quick if case not in listed]
    assert not unknown, f"no such cases: {unknown}"
    return [case if case in quick else _later(case) for case in listed]


def _later(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=FAULTS)
