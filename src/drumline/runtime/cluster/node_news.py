"""NodeNews: news of a host until the driver hears it, and when finished tasks travel.

Finished tasks wait for others, so that one message has all; less long once a worker may soon be
idle, and not at all where they would hold up the driver.
"""

import threading
import time
from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

from drumline.protocols import Completed, Probe, no_probe
from drumline.runtime.cluster.gathering import Waits, waits_among
from drumline.runtime.cluster.kept_results import kept
from drumline.runtime.cluster.newly_done import NewlyDone
from drumline.runtime.cluster.node_messages import Heard, HostSpec
from drumline.runtime.leases import Pace
from drumline.runtime.messages import Failure
from drumline.types import ProcessActivity, Span

_MESSAGE_RESULTS, _MESSAGE_BYTES = 512, 1 << 20
"""Finished tasks, and bytes of their results, with which a message waits for no other."""
_RESERVE_SECONDS = 0.02
"""Work in reserve for each worker, below which a worker may soon be idle."""
_ACTIVITY_SECONDS = 0.25
"""Time between two messages with the rows of processes."""


class Report(NamedTuple):
    """State of a host's tasks and processes after a look at its pool."""

    serials: Sequence[int]
    """Serials of the finished tasks."""
    finished: Sequence[Completed]
    failed: tuple[int, Failure] | None
    condemned: Sequence[tuple[int, tuple[str, ...]]]
    spans: Sequence[Span]
    activity: list[ProcessActivity]
    progress: list[tuple[int, int]]
    settled_below: int
    """Every task below this serial that was withdrawn has come back or never will."""
    urgent: bool
    """Whether the driver waits for more of it than results."""


class NodeNews:
    """News of a host: one thread adds to them, another one hears them."""

    def __init__(self, spec: HostSpec, held: Sized):
        """`held`: the tasks that the host holds, which changes."""
        self.told = -1
        """Number of the latest message of commands that was carried out."""
        self.kept: dict[int, bytes] = {}
        """Large results by serial, from which the driver may have rows copied."""
        self.probe: Probe = no_probe
        self._spec = spec
        self._held = held
        self._keeps = spec.shared is not None and spec.replica is None
        self._changed = threading.Condition()
        self._fresh = False
        """Whether there is news that the driver waits for."""
        self._urgent = False
        """Whether that news must not wait for results of other workers."""
        self._waits = waits_among(1)
        self._more = True
        """Whether the driver had other tasks when it sent the latest ones."""
        self._scarce = True
        """Whether workers may soon be idle though the driver has tasks."""
        self._pace = Pace()
        self._told_activity = -1.0
        self._done = NewlyDone()
        self._condemned: list[tuple[int, tuple[str, ...]]] = []
        self._lines: list[str] = []
        self._spans: list[Span] = []
        self._activity: list[ProcessActivity] = []
        self._progress: list[tuple[int, int]] = []
        self._settled_below = 0
        self._digests: list[tuple[int, bytes]] = []
        self._ending: dict[str, Any] = {}
        """Last words: `unbuilt`, `refused`, `hopeless` or `closed`."""
        self._last = Heard(-1, -1, 0.0)

    def hear(self, seen: int, seconds: float) -> Heard:
        """Return the news after number `seen`, waiting at most `seconds` for some.

        News whose transport failed is returned again: the driver may ask anew while its question
        before is still waiting here, and both get the same news.
        """
        with self._changed:
            if self._changed.wait_for(
                lambda: self._fresh or self._last.number > seen, max(seconds, self._waits.beat)
            ):
                self._gather(seen)
            if self._last.number > seen:
                return self._last
            self._last = self._all(seen + 1)
            if self._keeps:
                self.kept.update(kept(self._last.done.serials, self._last.done.results))
            self._changed.notify_all()  # another question may wait
        self.probe("host-heard")
        return self._last

    def tasks_came(self, waits: Waits, *, more: bool) -> None:
        """Note that the host holds new tasks, and whether the driver has others."""
        with self._changed:
            self._waits, self._more = waits, more
            self._judge_reserve()
            self._changed.notify_all()

    def add(self, report: Report) -> None:
        """Add finished, failed and condemned tasks, and the state of the processes."""
        with self._changed:
            self._done.add(report.serials, report.finished, report.failed)
            self._condemned += report.condemned
            self._progress, self._activity = report.progress, report.activity
            for span in report.spans:
                if span.tasks:
                    self._pace.observe(span.tasks, span.end - span.start)
            self._spans += report.spans
            self._settled_below = report.settled_below
            urgent = report.urgent or bool(report.condemned or self._lines)
            if urgent or report.serials or report.failed:
                # The last result of a host, or one for a virtual clock, holds up the driver.
                alone = self._spec.one_task_leases or not self._held
                self._judge_reserve()
                self._tell_driver(urgent=urgent or alone)

    def line(self, text: str) -> None:
        """Add a line for the driver's log."""
        with self._changed:
            self._lines.append(text)

    def published(self, version: int, digest: bytes) -> None:
        """Add the digest of a version that the replica has published."""
        with self._changed:
            self._digests.append((version, digest))

    def end(self, words: dict[str, Any], activity: list[ProcessActivity] | None) -> None:
        """Say the last words of the host."""
        with self._changed:
            self._ending = words
            if activity is not None:
                self._activity = activity
            self._tell_driver(urgent=True)

    def _all(self, number: int) -> Heard:
        self._fresh = self._urgent = False
        now = time.perf_counter()
        telling = bool(self._ending) or now - self._told_activity > _ACTIVITY_SECONDS
        if telling or not self._held:
            self._told_activity, activity = now, self._activity
        else:
            activity = None
        heard = Heard(
            number=number,
            told=self.told,
            clock=now,
            done=self._done.columns(),
            condemned=self._condemned,
            lines=self._lines,
            spans=self._spans,
            activity=activity,
            progress=self._progress,
            withdrawn_below=self._settled_below,
            replicas=self._digests,
            **self._ending,
        )
        self._done = NewlyDone()
        self._condemned, self._lines, self._spans = [], [], []
        self._digests = []
        return heard

    def _gather(self, seen: int) -> None:
        """Let finished tasks wait for others, less long once workers may soon be idle."""

        def complete() -> bool:
            return self._full or self._last.number > seen

        deadline = time.perf_counter() + self._waits.gather
        while not complete() and (seconds := deadline - time.perf_counter()) > 0:
            if not self._scarce:
                self._changed.wait_for(lambda: complete() or self._scarce, seconds)
            elif not self._changed.wait_for(
                lambda: complete() or not self._scarce, min(seconds, self._waits.scarce)
            ):
                return

    @property
    def _full(self) -> bool:
        """Whether the next message waits for no other result."""
        done = self._done
        return self._urgent or len(done.serials) >= _MESSAGE_RESULTS or done.bytes >= _MESSAGE_BYTES

    def _judge_reserve(self) -> None:
        waiting = len(self._held) / self._spec.size - 1
        reserve = waiting * (self._pace.seconds_per_task or 0.0)
        self._scarce = self._more and reserve < _RESERVE_SECONDS

    def _tell_driver(self, *, urgent: bool) -> None:
        self._fresh, self._urgent = True, self._urgent or urgent
        self._changed.notify_all()
