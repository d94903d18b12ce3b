"""Stragglers: tasks that have taken longer than 99 of 100 of their kind.

A task's time runs on the driver's clock from the message that sends it to a host to its result, so
it holds whatever may be slow: the worker, the host, or the network between.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from itertools import groupby, repeat

FLOOR_SECONDS = 1.0
"""Shortest time after which a task is late: a busy machine may keep a process from its core for
a good part of this."""
KNOWN = 32
"""Tasks of a kind that must have come back before another one of it can be late."""
RECENT = 512
"""Latest tasks of a kind whose times count."""
_QUANTILE = 0.99


class Stragglers:
    """Tasks on their way, by serial, and the recent times of each kind."""

    def __init__(self) -> None:
        self.doubled = 0
        """Tasks that were issued a second time because they were late."""
        self.overtaken = 0
        """Tasks issued a second time whose second result came first."""
        self._sent: dict[int, tuple[Hashable, float, bool]] = {}
        """Serial → (kind, time of sending, whether its time counts)."""
        self._doubles: dict[int, int] = {}
        """Serial → index of the host that the double was sent to."""
        self._seconds: dict[Hashable, deque[float]] = {}
        self._bounds: dict[Hashable, float] = {}
        self._told = (0, 0)

    def sent(
        self, serials: Sequence[int], kinds: Sequence[Hashable], now: float, *, counts: bool = True
    ) -> None:
        """Note tasks that a host was sent; one that is issued again begins anew.

        `counts`: their times say something about their kinds, as those of a host's start do not.
        """
        alike = {kind: (kind, now, counts) for kind in set(kinds)}
        self._sent.update(zip(serials, map(alike.__getitem__, kinds), strict=True))
        self._forget_doubles(serials)

    def sent_twice(self, serial: int, host: int) -> None:
        """Note that a late task was sent to one more host."""
        self._doubles[serial] = host
        self.doubled += 1

    def answered(self, serials: Sequence[int], host: int, now: float) -> None:
        """Note the first results of tasks, and take their times into account."""
        known = map(self._sent.pop, serials, repeat(None))
        for sent, alike in groupby(known):  # a message's tasks of one kind share a record
            if sent is not None and sent[2]:
                kind, since, _ = sent
                times = self._seconds.setdefault(kind, deque(maxlen=RECENT))
                times.extend([now - since] * len(list(alike)))
        if serials:
            self._bounds.clear()
        if self._doubles:
            self.overtaken += sum(self._doubles.get(serial) == host for serial in serials)
        self._forget_doubles(serials)

    def forget(self, serial: int) -> None:
        """Forget a task that waits for no result any more."""
        self._sent.pop(serial, None)
        self._forget_doubles([serial])

    def clear(self) -> None:
        """Forget every task; the times of their kinds stay."""
        self._sent.clear()
        self._doubles.clear()

    def news(self) -> str:
        """Return the counts in words; empty if they are those of the call before."""
        counts = self.doubled, self.overtaken
        if counts == self._told:
            return ""
        self._told = counts
        return (
            f"late tasks, slower than 99 of 100 of their kind: {self.doubled} issued on a second "
            f"node too, whose result came first for {self.overtaken}"
        )

    def late(self, now: float) -> list[int]:
        """Return the tasks that are late and have no double, in the order of sending."""
        return [
            serial
            for serial, (kind, since, _) in self._sent.items()
            if now - since > FLOOR_SECONDS
            and serial not in self._doubles
            and now - since > self.bound(kind)
        ]

    def bound(self, kind: Hashable) -> float:
        """Return the seconds after which a task of this kind is late; infinity: too few known."""
        if kind not in self._bounds:
            seconds = sorted(self._seconds.get(kind, ()))
            place = int(_QUANTILE * len(seconds))  # the largest of up to 100
            known = len(seconds) >= KNOWN
            self._bounds[kind] = max(FLOOR_SECONDS, seconds[place]) if known else float("inf")
        return self._bounds[kind]

    def _forget_doubles(self, serials: Sequence[int]) -> None:
        if self._doubles:
            for serial in serials:
                self._doubles.pop(serial, None)
