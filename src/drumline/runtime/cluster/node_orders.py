"""NodeOrders: the driver's messages of commands, in the order of their numbers."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from drumline.runtime.cluster.node_messages import Command


class NodeOrders:
    """Messages that have arrived and were not carried out; other threads may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._due: deque[tuple[Sequence[Command], Sequence[Any]]] = deque()
        self._early: dict[int, tuple[Sequence[Command], Sequence[Any]]] = {}

    def add(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Add a message, which may come in any order or twice."""
        with self._lock:
            if number >= self._next:
                self._early[number] = (commands, data)
            while self._next in self._early:
                self._due.append(self._early.pop(self._next))
                self._next += 1

    def __bool__(self) -> bool:
        return bool(self._due)

    def take(self) -> tuple[Sequence[Command], Sequence[Any]]:
        """Return the next message, its commands and their data."""
        return self._due.popleft()
