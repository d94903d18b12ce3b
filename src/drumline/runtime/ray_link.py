"""Connection to the actor of one host of a Ray cluster, and the actor itself."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

import pickle
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray import exceptions

from drumline.runtime.node_host import NodeHost, versions_of
from drumline.runtime.node_messages import Command, Heard, Lost, Node
from drumline.runtime.outbox import Fate, Outbox
from drumline.runtime.ray_cluster import RayCluster, cause_of

_OTHER = "it has {} instead of {}: install the driver's version there"
_UNREADABLE = (
    "it and the driver cannot read each other's messages ({}): install the driver's Drumline there"
)
_HEAR_SECONDS = 1.0
AGAIN_SECONDS = 0.5
"""Pause before a host that cannot be reached is asked again."""


class RayHost:
    """Actor of one node. Drumline's records travel pickled: versions are compared before."""

    def __init__(self, version: str, spec: bytes):
        """`version` is the driver's Drumline."""
        own = versions_of(["drumline"])["drumline"]
        self._refusal = "" if own == version else _OTHER.format(f"drumline {own}", version)
        if not self._refusal:
            try:
                self._host = NodeHost(pickle.loads(spec))
            except (AttributeError, ImportError, TypeError) as error:
                self._refusal = _UNREADABLE.format(error)

    def tell(self, number: int, commands: bytes, *data: Any) -> None:
        """Take commands with their data."""
        if not self._refusal:
            self._host.tell(number, pickle.loads(commands), *data)

    def hear(self, seen: int, seconds: float) -> bytes | str:
        """Return the host's news, or in words why this node cannot take part."""
        return self._refusal or pickle.dumps(self._host.hear(seen, seconds), protocol=5)


class RayLink:
    """Connection to the actor of one host."""

    def __init__(self, cluster: RayCluster, node: Node, actor: Any):
        self._cluster = cluster
        self._node = node
        self._actor = actor
        self._hearing: Any = None
        self._again_at = 0.0
        self._seen = -1
        self._outbox = Outbox(self._send, _fate)

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Send commands with their data."""
        self._outbox.tell(number, list(commands), data)

    def _send(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> Any:
        return self._actor.tell.remote(number, pickle.dumps(commands, protocol=5), *data)

    def end(self) -> None:
        """Kill the actor; without a head it ends once its node has lost the driver."""
        if self._cluster.headless:
            return
        with suppress(exceptions.RayError):
            ray.kill(self._actor)

    def listen(self) -> Any:
        """Return the reference of the next news; None shortly after the host was out of reach."""
        self._outbox.repeat_failed()
        if self._hearing is None and time.perf_counter() >= self._again_at:
            self._hearing = self._actor.hear.remote(self._seen, _HEAR_SECONDS)
        return self._hearing

    def take(self, ref: Any) -> Heard | Lost | None:
        """Return the news that has arrived; None if it was lost on the way and is asked again."""
        self._hearing = None
        try:
            with handlers_raise():
                said: Any = ray.get(ref)
            news = _read(said, self._seen + 1)
        except exceptions.ActorDiedError as error:
            return Lost(cause_of(error), node_gone=self._cluster.is_gone(self._node))
        except exceptions.RayTaskError:
            raise
        except exceptions.RayError:  # the host may live: it is asked again
            self._again_at = time.perf_counter() + AGAIN_SECONDS
            return None
        if news.number <= self._seen:
            return None
        self._seen = news.number
        self._outbox.carried_out(news.told)
        return news


def _read(said: bytes | str, number: int) -> Heard:
    refusal = said if isinstance(said, str) else ""
    if isinstance(said, bytes):
        try:
            return pickle.loads(said)
        except (AttributeError, ImportError, TypeError) as error:
            refusal = _UNREADABLE.format(error)
    return Heard(number, -1, time.perf_counter(), refused=refusal)


def _fate(receipt: Any) -> Fate:
    """Return whether a call of an actor has failed; a call that was carried out may have, too."""
    if not ray.wait([receipt], timeout=0)[0]:
        return Fate.UNKNOWN
    try:
        ray.get(receipt)
    except exceptions.ActorDiedError:
        return Fate.UNKNOWN  # the news of its end comes by `hear`
    except exceptions.RayTaskError:
        raise
    except exceptions.RayError:
        return Fate.FAILED
    return Fate.UNKNOWN


@contextmanager
def handlers_raise() -> Generator[None]:
    """Raise what a signal handler raised inside a call of Ray, which may hide it as the cause."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is None:
            raise
        raise error.__cause__ from None
