"""Signals that arrive while the driver waits for a host of a Ray cluster."""

import signal
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.runtime.cluster.node_messages import Heard
from drumline.training.stopped import Stopped

ray_pool = pytest.importorskip(
    "drumline.runtime.cluster.ray_pool", reason="the extra `ray` is missing"
)
ray_link = pytest.importorskip("drumline.runtime.cluster.ray_link")


class Hear:
    """Method of an actor whose answer the test gives."""

    def __init__(self) -> None:
        self.answers: list[Future[Any]] = []

    def remote(self, question: bytes) -> Any:
        self.answers.append(Future())
        return SimpleNamespace(future=lambda: self.answers[-1])


def test_a_signal_while_it_waits_stops_the_run_and_loses_no_news(monkeypatch: pytest.MonkeyPatch):
    nodes, hear = object.__new__(ray_pool.RayNodes), Hear()
    nodes._bell = threading.Event()
    actor = SimpleNamespace(hear=hear, tell=None)
    link = ray_link.RayLink(None, None, actor, nodes._bell)
    assert nodes.wait([link], 0.0) == []

    def stop(number: int, frame: Any) -> None:
        hear.answers[0].set_result(news)
        raise Stopped(signal.SIGALRM)

    news = ray_link.pickle.dumps(Heard(0, -1, 0.0))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stopped):
            nodes.wait([link], 60.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert nodes.wait([link], 0.0) == [(link, Heard(0, -1, 0.0))]
    assert len(hear.answers) == 1
