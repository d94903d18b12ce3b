"""Stopping a run of a population in the middle of one of its jobs."""

import signal
from typing import Any

import pytest

from drumline.training.stopped import Stopped
from drumline.workers.refiner import Refiner


def stop_at_call(patch: pytest.MonkeyPatch, call: int) -> None:
    """Let the `call`-th job of an inline pool be where Ctrl-C takes effect."""
    left = [call]
    original = Refiner.__call__

    def stopping(self: Refiner, task: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Stopped(signal.SIGINT)
        return original(self, task)

    patch.setattr(Refiner, "__call__", stopping)
