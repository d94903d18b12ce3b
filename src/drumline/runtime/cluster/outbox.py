"""Outbox: messages to a host are kept until it says that they were carried out.

A carrier may lose a message, or say that it failed though it arrived. Messages are numbered and a
host drops doubles, so what failed is sent again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from drumline.runtime.cluster.node_messages import Command

AGAIN_SECONDS = 0.5
"""Time between two looks at messages that were not carried out."""


class Fate(Enum):
    """State of a message that was sent."""

    UNKNOWN = "on its way, or there"
    FAILED = "not known to have arrived"


@dataclass
class _Message:
    commands: Sequence[Command]
    data: Sequence[Any]
    receipt: Any


class Outbox:
    """Messages to one host, by number."""

    def __init__(
        self,
        send: Callable[[int, Sequence[Command], Sequence[Any]], Any],
        fate: Callable[[Any], Fate],
    ):
        """`send` returns at once with a receipt, whose `fate` is asked for later."""
        self.repeated = 0
        """Messages that were sent again."""
        self._send = send
        self._fate = fate
        self._kept: dict[int, _Message] = {}
        self._look_at = 0.0

    def tell(self, number: int, commands: Sequence[Command], data: Sequence[Any]) -> None:
        """Send a message."""
        if not self._kept:
            self._look_at = time.perf_counter() + AGAIN_SECONDS
        self._kept[number] = _Message(commands, data, self._send(number, commands, data))

    def carried_out(self, told: int) -> None:
        """Forget the messages up to this number."""
        for number in [number for number in tuple(self._kept) if number <= told]:
            self._kept.pop(number, None)

    def repeat_failed(self) -> None:
        """Send messages again that have failed; most calls return at once."""
        if not self._kept or time.perf_counter() < self._look_at:
            return
        for number, message in tuple(self._kept.items()):
            if self._fate(message.receipt) is Fate.FAILED:
                message.receipt = self._send(number, message.commands, message.data)
                self.repeated += 1
        self._look_at = time.perf_counter() + AGAIN_SECONDS
