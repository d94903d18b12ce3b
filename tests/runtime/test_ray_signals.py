"""Signals that arrive while the driver is inside a call of Ray."""

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.training.stopped import Stopped

ray_pool = pytest.importorskip("drumline.runtime.ray_pool", reason="the extra `ray` is missing")


def interrupted(cause: BaseException | None) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        raise SystemError("returned a result with an exception set") from cause

    return call


def waiting(monkeypatch: pytest.MonkeyPatch, cause: BaseException | None) -> None:
    """Wait for a host, in a call of Ray that a signal interrupts."""
    link = object.__new__(ray_pool.RayLink)
    monkeypatch.setattr(ray_pool.RayLink, "listen", lambda link: "a reference")
    monkeypatch.setattr(ray_pool, "ray", SimpleNamespace(wait=interrupted(cause)))
    object.__new__(ray_pool.RayNodes).wait([link], 1.0)


def test_a_signal_inside_a_call_of_ray_stops_the_run_as_anywhere(monkeypatch: pytest.MonkeyPatch):
    stop = Stopped(signal.SIGTERM)
    with pytest.raises(Stopped) as raised:
        waiting(monkeypatch, stop)
    assert raised.value is stop


def test_an_error_of_rays_own_is_kept(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemError, match="exception set"):
        waiting(monkeypatch, None)
