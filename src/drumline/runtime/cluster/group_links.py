"""Links between the groups of a run: TCP connections over which they swap bytes.

Every group is connected with every other. A swap sends one's own bytes to all and takes theirs; the
bytes are never added on the way. Between two swaps a group may say something to the head, and the
head to a group.
"""

import os
import pickle
import select
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from drumline.errors import GroupLost
from drumline.protocols import Probe
from drumline.runtime.links import IncomingFrames, OutgoingFrames

LOOK_SECONDS = 0.05
"""Longest time between two calls of `idle` while a group waits for others."""
_INTRODUCTION_SECONDS = 10
_SILENT_SECONDS = 15
"""Time after which the kernel gives up a connection to a machine that does not answer."""
_MEANWHILE_SECONDS = 1.0
_HEADER = struct.Struct("<QQ")
"""Kind and number of a message; 16 bytes, so that arrays behind it are aligned."""
_NEWS, _PART = 0, 1

Chunk = bytes | memoryview


class GroupLink:
    """A connection to another group; neither sending nor receiving blocks."""

    def __init__(self, connection: socket.socket):
        connection.setblocking(False)
        self._connection = connection
        self.fd = connection.fileno()
        self._incoming = IncomingFrames(self.fd)
        self._outgoing = OutgoingFrames(self.fd)
        self._parts: deque[tuple[int, memoryview]] = deque()
        self._news: deque[bytes] = deque()
        self._receiving = threading.Lock()
        self._ended = False
        self.parts_taken = 0
        """Swaps for which the other group's bytes have arrived, ever."""

    @property
    def ended(self) -> bool:
        """Whether the other group is gone; what it has sent before can still be taken."""
        return self._ended

    @property
    def received_bytes(self) -> int:
        """Return how much has arrived, ever."""
        return self._incoming.received_bytes

    @property
    def waiting(self) -> bool:
        """Whether bytes are left to be sent."""
        return self._outgoing.waiting

    @property
    def has_part(self) -> bool:
        """Whether the other group's bytes of the next swap are here."""
        return bool(self._parts)

    @property
    def has_news(self) -> bool:
        """Whether a message of the other group is here."""
        return bool(self._news)

    def say(self, message: Any) -> None:
        """Send a message."""
        pickled = pickle.dumps(message, protocol=5)
        self._outgoing.send(_HEADER.pack(_NEWS, 0) + pickled)

    def send_part(self, frame: bytes) -> None:
        """Send one's bytes of a swap, with the header of `part_frame`."""
        self._outgoing.send(frame)

    def flush(self) -> None:
        """Send the bytes that fit now."""
        self._outgoing.flush()

    def take_in(self) -> None:
        """Receive what has arrived; any thread may."""
        with self._receiving:
            for frame in self._incoming.receive():
                kind, number = _HEADER.unpack_from(frame)
                if kind == _NEWS:
                    self._news.append(frame)
                else:
                    self._parts.append((number, memoryview(frame)[_HEADER.size :]))
                    self.parts_taken += 1
            self._ended = self._incoming.ended  # after all that came before

    def news(self) -> list[Any]:
        """Return the messages that have arrived."""
        found: list[Any] = []
        while self._news:
            found.append(pickle.loads(memoryview(self._news.popleft())[_HEADER.size :]))
        return found

    def part(self, number: int) -> memoryview:
        """Return the other group's bytes of a swap; RuntimeError if they are another's."""
        found, chunk = self._parts.popleft()
        if found != number:
            raise RuntimeError(f"bytes of swap {found} arrived in swap {number}")
        return chunk

    def close(self) -> None:
        """Close the connection; may be called twice."""
        with self._receiving:
            self._incoming.ended = self._ended = True
            self._connection.close()


class Mesh:
    """The links of one group to all the others."""

    def __init__(
        self,
        index: int,
        links: Mapping[int, GroupLink],
        *,
        idle: Callable[[], None],
        probe: Probe = lambda point: None,
    ):
        """`idle` is called every now and then while the group waits for others; it may raise."""
        self.index = index
        self.links = dict(sorted(links.items()))
        self._idle = idle
        self._probe = probe
        self._number = 0
        self._next_look = 0.0
        self._closed = threading.Event()
        threading.Thread(target=self._take_in_meanwhile, daemon=True).start()

    def _take_in_meanwhile(self) -> None:
        """Take in what arrives while the group is busy elsewhere, as in a callback of the user's.

        The kernel's buffers would be full at some time, and the other end would give up a
        connection on which it cannot send, as one to a machine that is gone.
        """
        while not self._closed.wait(_MEANWHILE_SECONDS):
            for link in self.links.values():
                with suppress(OSError):  # whatever it is, the group itself meets it
                    link.take_in()

    def swap(self, chunks: Sequence[Chunk]) -> dict[int, memoryview]:
        """Send bytes to all other groups and return theirs by group, in the order of the groups.

        GroupLost if one is gone.
        """
        self._number += 1
        self._probe("before-swap")
        frame = b"".join([_HEADER.pack(_PART, self._number), *chunks])
        links = self.links.values()
        for link in links:
            link.send_part(frame)
        self._probe("part-sent")
        self._next_look = time.perf_counter() + LOOK_SECONDS
        while lacking := [link for link in links if link.waiting or not link.has_part]:
            self._wait(lacking)
        found = {index: link.part(self._number) for index, link in self.links.items()}
        self._probe("swapped")
        return found

    def _wait(self, lacking: Sequence[GroupLink]) -> None:
        poll = select.poll()
        for link in lacking:
            poll.register(link.fd, select.POLLIN | (select.POLLOUT if link.waiting else 0))
        poll.poll(LOOK_SECONDS * 1000.0)
        for link in lacking:
            link.flush()
            link.take_in()
        now = time.perf_counter()
        gone = [link for link in lacking if link.ended and not link.has_part]
        if gone or now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._idle()
        for index, link in self.links.items():
            if link in gone:
                raise GroupLost(index, "it ended")

    def close(self) -> None:
        """Close all links; may be called twice."""
        self._closed.set()
        for link in self.links.values():
            link.close()


def listening(host: str) -> socket.socket:
    """Return a socket that other groups can call."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=64)


def called(address: tuple[str, int], token: bytes) -> GroupLink:
    """Call another group; OSError if it does not answer as it should."""
    connection = socket.create_connection(address, _INTRODUCTION_SECONDS)
    try:
        _introduce(connection, token, caller=True)
    except BaseException as error:
        connection.close()
        if isinstance(error, (EOFError, AuthenticationError)):
            raise ConnectionRefusedError(f"{address} does not know the run's token") from error
        raise
    return GroupLink(connection)


def answered(listener: socket.socket, token: bytes) -> GroupLink | None:
    """Take a call; None from a caller that does not know the token."""
    connection, _ = listener.accept()
    try:
        _introduce(connection, token, caller=False)
    except (OSError, EOFError, AuthenticationError):
        connection.close()
        return None
    return GroupLink(connection)


def _introduce(connection: socket.socket, token: bytes, *, caller: bool) -> None:
    """Let both ends prove that they know the token, before anything is unpickled."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _give_up_early(connection)
    limit = struct.pack("ll", _INTRODUCTION_SECONDS, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    with Connection(os.dup(connection.fileno())) as ends:
        if caller:
            answer_challenge(ends, token)
            deliver_challenge(ends, token)
        else:
            deliver_challenge(ends, token)
            answer_challenge(ends, token)


def _give_up_early(connection: socket.socket) -> None:
    """Let the kernel give up a connection to a machine that is gone without a word."""
    seconds = _SILENT_SECONDS
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds // 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
    for name, value in (("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 5)):
        with suppress(OSError, AttributeError):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
