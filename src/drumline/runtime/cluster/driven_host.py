"""A host of a node pool as the driver sees it: what it holds, was sent and has said."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from drumline.runtime.cluster.kept_results import KeptResults
from drumline.runtime.cluster.node_messages import Command, Heard, Link, Node
from drumline.runtime.leases import Pace
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
        self.answered = 0
        """Tasks that it has answered."""
        self.has: frozenset[int] = frozenset()
        """Versions that it was sent."""
        self.replica: int | None = None
        """Version to which its replica was brought; None: it has none yet."""
        self.unwritten: deque[tuple[str, int, int]] = deque()
        """(name, first, last): rows of the shared arrays that it has not been sent."""
        self.kept = KeptResults()
        """Results that it can copy rows from."""
        self.tells = 0
        self.told = -1
        self.silent_seconds = 0.0
        self.silent = False
        self.offset: float | None = None
        """Driver's clock minus host's clock, in seconds."""
        self._activity: Sequence[ProcessActivity] = ()
        self._commands: list[Command] = []
        self._data: list[Any] = []
        self.began = time.perf_counter()
        self.speaks = False
        """Whether it has said anything yet."""
        self.closed = False

    @property
    def activity(self) -> list[ProcessActivity]:
        """Return the rows of its processes, with indices that no other host of the pool has."""
        return [row._replace(index=self.first + row.index) for row in self._activity]

    def tell(self, commands: Sequence[Command], data: Sequence[Any] = ()) -> None:
        """Add commands to the next message."""
        self._commands += commands
        self._data += data

    def flush(self) -> None:
        """Send what was added as one message, under the next number."""
        if not self._commands:
            return
        commands, data = self._commands, self._data
        self._commands, self._data = [], []
        self.tells += 1
        self.link.tell(self.tells - 1, commands, data)

    def account(self, news: Heard) -> list[Span]:
        """Take over its rows; return its stretches of work, on the driver's clock."""
        ahead = time.perf_counter() - news.clock
        self.offset = ahead if self.offset is None else min(self.offset, ahead)
        if news.activity is not None:
            self._activity = news.activity
        spans: list[Span] = []
        for span in news.spans:
            start, end = span.start + self.offset, span.end + self.offset
            if span.tasks:
                self.pace.observe(span.tasks, end - start)
                self.answered += span.tasks
            spans.append(span._replace(index=self.first + span.index, start=start, end=end))
        return spans
