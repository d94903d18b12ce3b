"""Connection to the actor of one host of a Ray cluster, and the actor itself."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (Ray's annotations are partial)

import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import ray
from ray import exceptions

from drumline.runtime.cluster.node_checks import versions_of
from drumline.runtime.cluster.node_host import NodeHost
from drumline.runtime.cluster.node_messages import Command, Heard, Lost, Node
from drumline.runtime.cluster.outbox import Fate, Outbox
from drumline.runtime.cluster.ray_cluster import RayCluster, cause_of

_OTHER = "it has {} instead of {}: install the driver's version there"
_UNREADABLE = (
    "it and the driver cannot read each other's messages ({}): install the driver's Drumline there"
)
_HEAR_SECONDS = 1.0
_AGAIN_SECONDS = 0.5
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

    def hear(self, question: bytes) -> bytes | str:
        """Take the commands of a question; return the host's news.

        In words, why this node cannot take part.
        """
        if self._refusal:
            return self._refusal
        seen, number, commands = pickle.loads(question)
        if commands:
            self._host.tell(number, commands)
        return pickle.dumps(self._host.hear(seen, _HEAR_SECONDS), protocol=5)


class RayLink:
    """Connection to the actor of one host."""

    def __init__(self, cluster: RayCluster, node: Node, actor: Any, bell: threading.Event):
        """`bell` is rung whenever there may be news."""
        self._cluster = cluster
        self._node = node
        self._tell, self._hear = actor.tell, actor.hear
        self._actor = actor
        self._bell = bell
        self._hearing: Future[bytes | str] | None = None
        self._again_at = 0.0
        self._seen = -1
        self._outbox = Outbox(self._send, _fate)

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Send commands with their data."""
        self._outbox.tell(number, list(commands), data)

    def _send(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> Any:
        """Send commands with the next question for news, which then costs no call of its own.

        Not with data, which may take long to arrive while there is news.
        """
        if data or not self._may_ask:
            return self._tell.remote(number, pickle.dumps(commands, protocol=5), *data)
        return self._ask(number, commands)

    def _ask(self, number: int, commands: Sequence[Command]) -> Any:
        """Ask for news; a future costs less than a call of Ray for each look at what is there."""
        ref = self._hear.remote(pickle.dumps((self._seen, number, commands), protocol=5))
        hearing: Future[bytes | str] = ref.future()
        hearing.add_done_callback(lambda _: self._bell.set())
        self._hearing = hearing
        return ref

    @property
    def _may_ask(self) -> bool:
        return self._hearing is None and time.perf_counter() >= self._again_at

    def end(self) -> None:
        """Kill the actor; without a head it ends once its node has lost the driver."""
        if self._cluster.headless:
            return
        with suppress(exceptions.RayError):
            ray.kill(self._actor)

    def listen(self) -> bool:
        """Ask for news, but not shortly after the host was out of reach; whether there is some."""
        self._outbox.repeat_failed()
        if self._may_ask:
            self._ask(-1, ())
        return self._hearing is not None and self._hearing.done()

    def take(self) -> Heard | Lost | None:
        """Return the news that has arrived; None if it was lost on the way and is asked again."""
        assert self._hearing is not None, "there is news only for one that has asked"
        hearing, self._hearing = self._hearing, None
        try:
            news = _read(hearing.result(), self._seen + 1)
        except exceptions.ActorDiedError as error:
            return Lost(cause_of(error), node_gone=self._cluster.is_gone(self._node))
        except exceptions.RayTaskError:
            raise
        except exceptions.RayError:  # the host may live: it is asked again
            self._again_at = time.perf_counter() + _AGAIN_SECONDS
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
