"""Groups: the other groups of a run as its head sees them, group 0 of all.

A group is a process that steps its own environments and learns from its own shards. Between two
updates every group holds the same state, so a lost one costs time only: all groups but the head
start again from the head's state. What the head's own environments have done is kept.
"""

import os
import pickle
import secrets
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from drumline.errors import HANG, GroupLost, WorkersLost, about_hangs
from drumline.protocols import Probe
from drumline.runtime.child_process import ChildProcess
from drumline.runtime.cluster.group_links import (
    LOOK_SECONDS,
    Chunk,
    GroupLink,
    Mesh,
    answered,
    listening,
)
from drumline.runtime.cluster.group_messages import (
    NODE_LOST,
    Address,
    Alive,
    Begin,
    Built,
    Closed,
    Finish,
    GroupSpec,
    Hello,
    Line,
    Missed,
    Peers,
    Places,
    StartedGroup,
)
from drumline.runtime.cluster.node_checks import arithmetic_variables
from drumline.runtime.deaths import STRIKES
from drumline.runtime.failures import raised, unpacked
from drumline.runtime.messages import Failure
from drumline.runtime.portable import by_reference
from drumline.runtime.shared_arrays import anonymous_file
from drumline.types import ProcessActivity, Span

_LAST_WORDS_SECONDS = 8.0
_CAUSE_SECONDS = 1.0
_LATE_SECONDS = 30.0
_PLACES_SECONDS = 1.0


class ThisMachine:
    """Groups that are processes of this machine."""

    host = "127.0.0.1"

    def start(self, index: int, count: int, spec_on: Callable[[str], GroupSpec]) -> "LocalGroup":
        """Start a process."""
        return LocalGroup(spec_on(self.host))

    def look(self) -> None:
        """Do nothing: this machine is there."""


class LocalGroup:
    """A child of the process that starts it; the thread that does so must outlive it."""

    where = "this machine"

    def __init__(self, spec: GroupSpec):
        spec_fd = anonymous_file("drumline-group")
        try:
            with open(spec_fd, "wb", closefd=False) as file:
                file.write(pickle.dumps(spec, protocol=5))
            os.lseek(spec_fd, 0, os.SEEK_SET)
            arguments = (os.getpid(), spec_fd)
            self._process = ChildProcess(
                "drumline.runtime.cluster.group_child", arguments, (spec_fd,)
            )
        finally:
            os.close(spec_fd)
        self.pid = self._process.pid

    def ended(self) -> str | None:
        """Return the cause of its end; None while it lives."""
        return self._process.end() if self._process.exited() else None

    def end(self, *, lost: bool = False) -> None:
        """Kill it; its own children end with it."""
        self._process.kill()
        self._process.end()


class _Group:
    """One group after its start, with all that is known of it."""

    def __init__(self, index: int, started: StartedGroup):
        self.index = index
        self.started = started
        self.link: GroupLink | None = None
        self.built: Built | None = None
        self.closed = False
        self.missed = 0
        """Number of the group for whose loss it left; 0: it has said nothing of the kind."""
        self.silent_seconds = 0.0
        self.heard_bytes = -1
        self.activity: Sequence[ProcessActivity] = ()
        self.spans: Sequence[Span] = ()


class Groups:
    """The groups 1 … count − 1, started by the head; the main thread makes them and looks."""

    def __init__(
        self,
        count: int,
        work: Any,
        *,
        places: Places,
        packages: Sequence[str] = (),
        refuse: Callable[[Built], str] = lambda built: "",
        hang_seconds: float = 60.0,
        creation_seconds: float = 300.0,
        probe_factory: Callable[[], Probe] | None = None,
        log: Callable[[str], None],
    ):
        """`refuse` says why a built group may not take part; empty if it may."""
        self._count = count
        self._places = places
        self._packages = packages
        self._refuse = refuse
        self._hang_seconds = hang_seconds
        self._creation_seconds = max(creation_seconds, hang_seconds)
        self._log = log
        self._factory = by_reference(work, "the work of a group")
        self._probe_factory = (
            None if probe_factory is None else by_reference(probe_factory, "the probe factory")
        )
        self._groups: list[_Group] = []
        self._ended: list[ProcessActivity] = []
        self._spans: list[Span] = []
        self._mesh: Mesh | None = None
        self._listener: socket.socket | None = None
        self._token = b""
        self._restarts = 0
        self._losses: list[str] = []
        """Causes of the losses since the latest update."""
        self._update = -1
        self._last_look = self._looked_at_places = time.perf_counter()
        self._closed = False
        self.idle: Callable[[], None] = self.look
        """Called while the head waits for other groups; it should call `look`."""
        self._start()

    # what the head asks for

    def begin(self, update: int, state: Any) -> None:
        """Wait until every group is built, and let all begin after `update` from this state."""
        self._last_look = time.perf_counter()
        self._meet()
        while any(group.built is None for group in self._groups):
            self.idle()
            time.sleep(0.002)
        for group in self._groups:
            assert group.link is not None, "every group has called"
            group.link.say(Begin(update, state))

    def swap(self, chunks: Sequence[Chunk]) -> Mapping[int, memoryview]:
        """Send bytes to all groups, and return theirs by group."""
        assert self._mesh is not None, "groups swap after they have begun"
        return self._mesh.swap(chunks)

    def look(self) -> None:
        """Take in what the groups say; GroupLost for a lost one, and a failed one's error."""
        now = time.perf_counter()
        # Only time that the head spends here counts, so a long update makes no group silent.
        elapsed, self._last_look = min(now - self._last_look, 4 * LOOK_SECONDS), now
        for group in self._groups:
            if group.link is not None:
                group.link.flush()
                group.link.take_in()
                self._hear(group)
        for group in self._groups:
            self._watch(group, elapsed)
        if now - self._looked_at_places > _PLACES_SECONDS:
            self._looked_at_places = now
            self._places.look()

    def again(self, lost: GroupLost, update: int) -> None:
        """Start all groups again after the loss of one; WorkersLost after the third in a row."""
        cause = self._cause(lost)
        if missed := self._groups[lost.index - 1].missed:
            lost = GroupLost(missed, f"the loss of its link to group {lost.index}")
            cause = self._cause(lost)
        if update != self._update:
            self._losses, self._update = [], update
        if cause != NODE_LOST:
            self._losses.append(cause)
        if len(self._losses) >= STRIKES:
            causes = ", ".join(self._losses)
            raise WorkersLost(
                f"a group was lost {STRIKES} times without an update between ({causes})"
                f"{about_hangs(self._losses)}"
            )
        self._end_all(lost.index)
        self._restarts += 1
        self._log(
            f"group {lost.index} ended by {cause}; all groups but this one start again "
            f"from update {update}"
        )
        self._start()

    def finish(self) -> None:
        """Ask every group to leave, and wait for none."""
        for group in self._groups:
            if group.link is not None and not group.closed:
                group.link.say(Finish())

    def activity(self) -> list[ProcessActivity]:
        """Return one row per process that has worked in a group, lost ones included."""
        rows = [*self._ended]
        for group in self._groups:
            rows += self._rows(group)
        return sorted(rows, key=lambda row: (row.role, row.index, row.restarts))

    def timeline(self) -> list[Span]:
        """Return the stretches of work of the groups' processes, once they are closed."""
        return self._spans

    def close(self) -> None:
        """Let every group leave and end those that do not; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self.finish()
        deadline = time.perf_counter() + _LAST_WORDS_SECONDS
        left = [group for group in self._groups if group.built is not None]
        while left and time.perf_counter() < deadline:
            for group in left:
                assert group.link is not None, "a group that is built has called"
                group.link.flush()
                group.link.take_in()
                with suppress(Exception):  # an error of a group that leaves comes too late
                    self._hear(group)
            left = [g for g in left if not g.closed and g.link is not None and not g.link.ended]
            time.sleep(0.002)
        self._end_all()

    # starting

    def _start(self) -> None:
        self._token = secrets.token_bytes(32)
        self._listener = listening(self._places.host)
        head: Address = (self._places.host, self._listener.getsockname()[1])
        for index in range(1, self._count):

            def spec_on(host: str, index: int = index) -> GroupSpec:
                return GroupSpec(
                    search_path=list(sys.path),
                    index=index,
                    host=host,
                    head=head,
                    token=self._token,
                    packages=self._packages,
                    variables=arithmetic_variables(),
                    factory=self._factory,
                    probe_factory=self._probe_factory,
                )

            started = self._places.start(index, self._count, spec_on)
            self._groups.append(_Group(index, started))

    def _meet(self) -> None:
        """Wait for every group's call, and tell them of each other."""
        listener = self._listener
        if listener is None:
            return
        addresses: dict[int, Address] = {}
        unnamed: list[GroupLink] = []
        calls = select.poll()  # `select` fails where more than 1,024 descriptors are open
        calls.register(listener, select.POLLIN)
        late: float | None = time.perf_counter() + _LATE_SECONDS
        while len(addresses) < self._count - 1:
            if calls.poll(LOOK_SECONDS * 1000.0):
                link = answered(listener, self._token)
                unnamed += [] if link is None else [link]
            for link in list(unnamed):
                link.take_in()
                for hello in link.news():
                    assert isinstance(hello, Hello), "the first message of a group is its number"
                    self._groups[hello.index - 1].link = link
                    addresses[hello.index] = hello.address
                    unnamed.remove(link)
            if late is not None and time.perf_counter() > late:
                late = None
                missing = [group for group in self._groups if group.link is None]
                where = ", ".join(f"{group.index} ({group.started.where})" for group in missing)
                self._log(f"waiting for group {where}, whose place may have no core free")
            self.idle()
        links: dict[int, GroupLink] = {}
        for group in self._groups:
            assert group.link is not None, "every group has called"
            group.link.say(Peers(addresses))
            links[group.index] = group.link
        listener.close()
        self._listener = None
        self._mesh = Mesh(0, links, idle=lambda: self.idle())

    # what the groups say

    def _hear(self, group: _Group) -> None:
        assert group.link is not None, "only a group that has called says something"
        if group.link.received_bytes != group.heard_bytes:
            group.heard_bytes, group.silent_seconds = group.link.received_bytes, 0.0
        for news in group.link.news():
            match news:
                case Built():
                    self._take(group, news)
                case Line(text):
                    self._log(f"group {group.index}: {text}")
                case Alive(activity):
                    group.activity = activity
                case Missed(index):
                    group.missed = index
                case Closed():
                    self._take_last_words(group, news)
                case Failure():
                    group.closed = True
                    raised(unpacked(f"group {group.index}", news))
                case _:
                    raise AssertionError(f"a group said {news!r}")

    def _take(self, group: _Group, built: Built) -> None:
        if why := self._refuse(built):
            raise WorkersLost(
                f"group {group.index} on {group.started.where} cannot take part: {why}"
            )
        group.built = built

    def _take_last_words(self, group: _Group, words: Closed) -> None:
        group.closed = True
        group.activity = words.activity
        ahead = time.perf_counter() - words.clock
        self._spans += [
            span._replace(start=span.start + ahead, end=span.end + ahead) for span in words.spans
        ]

    def _watch(self, group: _Group, elapsed: float) -> None:
        group.silent_seconds += elapsed
        cause = None
        link = group.link
        if link is not None and link.ended and not (link.has_part or link.has_news):
            cause = "the end of its connection"
        elif link is None and (ended := group.started.ended()) is not None:
            cause = ended
        working = link is not None and link.parts_taken > 0  # its environments are made
        limit = self._hang_seconds if working else self._creation_seconds
        if cause is None and group.silent_seconds > limit:
            cause = f"{HANG} {limit:g} s"
        if cause is not None and not group.closed:
            raise GroupLost(group.index, cause)

    def _cause(self, lost: GroupLost) -> str:
        """Return the cause of a group's end, which may be known a moment after its links' end.

        An error that a group has sent as it ended is raised instead.
        """
        deadline = time.perf_counter() + _CAUSE_SECONDS
        while True:
            for group in self._groups:
                if group.link is not None:
                    group.link.take_in()
                    self._hear(group)
            ended = {group.index: group.started.ended() for group in self._groups}
            if lost.index in ended and ended[lost.index] is not None:
                return str(ended[lost.index])
            if time.perf_counter() > deadline:
                return lost.cause
            time.sleep(0.01)

    def _end_all(self, lost: int = 0) -> None:
        for group in self._groups:
            self._ended += self._rows(group)
        for group in self._groups:
            if group.link is not None:
                group.link.close()
            group.started.end(lost=group.index == lost)
        self._groups.clear()
        if self._mesh is not None:
            self._mesh.close()
            self._mesh = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _rows(self, group: _Group) -> list[ProcessActivity]:
        more = self._restarts
        return [row._replace(restarts=row.restarts + more) for row in group.activity]
