"""A host of a node pool as the driver sees it: what it holds, was sent and has said."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from drumline.runtime.leases import Pace
from drumline.runtime.node_messages import Command, Heard, Link, Node
from drumline.types import ProcessActivity, Span


class DrivenHost:
    """A host as the driver sees it."""

    def __init__(self, node: Node, link: Link, size: int, first: int):
        self.node = node
        self.link = link
        self.size = size
        self.first = first
        """Index of its first worker; no two hosts of a pool share an index."""
        self.held: dict[int, Any] = {}
        """Tasks by serial that it has and has not answered."""
        self.pace = Pace()
        self.has: frozenset[int] = frozenset()
        """Versions that it was sent."""
        self.replica: int | None = None
        """Version to which its replica was brought; None: it has none yet."""
        self.unwritten: deque[tuple[str, int, int]] = deque()
        """(name, first, last): rows of the shared arrays that it has not been sent."""
        self.tells = 0
        self.told = -1
        self.silent_seconds = 0.0
        self.silent = False
        self.offset: float | None = None
        """Driver's clock minus host's clock, in seconds."""
        self.activity: Sequence[ProcessActivity] = ()
        self.speaks = False
        """Whether it has said anything yet."""
        self.closed = False

    def tell(self, commands: Sequence[Command], data: Sequence[Any] = ()) -> None:
        """Send commands under the next number."""
        self.link.tell(self.tells, commands, data)
        self.tells += 1

    def account(self, news: Heard) -> list[Span]:
        """Take over its rows; return its stretches of work, on the driver's clock."""
        ahead = time.perf_counter() - news.clock
        self.offset = ahead if self.offset is None else min(self.offset, ahead)
        self.activity = [row._replace(index=self.first + row.index) for row in news.activity]
        spans: list[Span] = []
        for span in news.spans:
            start, end = span.start + self.offset, span.end + self.offset
            if span.tasks:
                self.pace.observe(span.tasks, end - start)
            spans.append(span._replace(index=self.first + span.index, start=start, end=end))
        return spans
