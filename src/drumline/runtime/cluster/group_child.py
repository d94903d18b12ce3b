"""A group of a run in a process of its own: `main` is its program.

    reach the head → reach the other groups → build → begin … → last words → leave

Its link to the head ends when the head does: the group then leaves, and its children with it.
"""

import pickle
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from drumline.errors import GroupLost
from drumline.protocols import Probe, no_probe
from drumline.runtime.child_start import begin, leave
from drumline.runtime.cluster.group_links import (
    LOOK_SECONDS,
    GroupLink,
    Mesh,
    answered,
    called,
    listening,
)
from drumline.runtime.cluster.group_messages import (
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
)
from drumline.runtime.cluster.node_checks import processor, versions_of
from drumline.runtime.failures import packed
from drumline.runtime.printed import PRINTED
from drumline.types import ProcessActivity, Span

HEAD = 0
_ALIVE_SECONDS = 0.5


class GroupFinished(BaseException):
    """The head asked this group to leave; not an Exception, so that nothing swallows it."""


class GroupContext:
    """Number and links of a group, and the head's orders, for its work."""

    def __init__(self, spec: GroupSpec, mesh_of: Callable[["GroupContext"], Mesh], probe: Probe):
        self.index = spec.index
        self.probe = probe
        self.activity: Callable[[], Sequence[ProcessActivity]] = tuple
        """Rows of the group's processes."""
        self.on_look: Callable[[], None] = lambda: None
        """Called now and then, while the group waits for others too."""
        self._spec = spec
        self._orders: list[Begin] = []
        self._next_alive = 0.0
        self._next_look = 0.0
        self.mesh = mesh_of(self)
        self._head = self.mesh.links[HEAD]

    def begin(self, answer: str) -> Begin:
        """Say that the group is built, with its libraries' known answer; wait for a state."""
        versions = versions_of(self._spec.packages)
        self._head.say(Built(versions, processor(), answer))
        while not self._orders:
            self.look()
            time.sleep(0.002)
        return self._orders.pop()

    def say(self, text: str) -> None:
        """Send a line to the run's log."""
        self._head.say(Line(text))

    def look(self) -> None:
        """Take in the head's orders and send a sign of life, unless that was done just now.

        GroupFinished if the group should leave, GroupLost if another one is gone.
        """
        now = time.perf_counter()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS / 2
        self.on_look()
        self._head.flush()
        self._head.take_in()
        for order in self._head.news():
            if isinstance(order, Finish):
                raise GroupFinished
            self._orders.append(order)
        if self._head.ended:
            raise GroupLost(HEAD, "it ended")
        if now >= self._next_alive:
            self._next_alive = now + _ALIVE_SECONDS
            self._head.say(Alive(list(self.activity())))

    def wait(self) -> NoReturn:
        """Wait for the order to leave."""
        while True:
            self.look()
            time.sleep(LOOK_SECONDS)

    def last_words(self, activity: Sequence[ProcessActivity], spans: Sequence[Span]) -> None:
        """Send the rows and stretches of work of the group's processes."""
        self._head.say(Closed(time.perf_counter(), list(activity), list(spans)))
        _send_all(self._head)


GroupWork = Callable[[GroupContext], None]
"""The work of a group; must pickle by reference. It raises GroupFinished when it was asked to."""


def main() -> NoReturn:
    """Join the other groups, work until the head ends this one, and leave."""
    parent, spec_fd = map(int, sys.argv[1:])
    begin(parent)
    with open(spec_fd, "rb") as file:
        spec: GroupSpec = pickle.load(file)
    sys.path[:] = spec.search_path
    PRINTED.fd = 1  # environments of a group print to where the head keeps it
    code = 0
    try:
        head, others = _links(spec)
    except (OSError, EOFError):
        leave(1)  # the head is gone, or starts all groups again
    try:
        probe: Probe = pickle.loads(spec.probe_factory)() if spec.probe_factory else no_probe
        probe("group-joined")
        links = {HEAD: head, **others}

        def mesh_of(context: GroupContext) -> Mesh:
            return Mesh(spec.index, links, idle=context.look, probe=probe)

        context = GroupContext(spec, mesh_of, probe)
        work: GroupWork = pickle.loads(spec.factory)
        work(context)
    except GroupFinished:
        pass
    except GroupLost as lost:
        if lost.index != HEAD:
            head.say(Missed(lost.index))
            _send_all(head)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the head must see it
        code = 1
        head.say(packed(error))
        _send_all(head)
    leave(code)


def _links(spec: GroupSpec) -> tuple[GroupLink, dict[int, GroupLink]]:
    """Return the links to the head and to the other groups; the later of two calls the other."""
    with listening(spec.host) as listener:
        head = called(spec.head, spec.token)
        head.say(Hello(spec.index, (spec.host, listener.getsockname()[1])))
        while not (news := head.news()):
            if head.ended:
                raise EOFError("the head ended")
            time.sleep(0.002)
            head.take_in()
        peers: Peers = news[0]
        others: dict[int, GroupLink] = {}
        for index, address in peers.addresses.items():
            if index < spec.index:
                others[index] = called(address, spec.token)
                others[index].say(Hello(spec.index, address))
        while len(others) < len(peers.addresses) - 1:
            link = answered(listener, spec.token)
            if link is not None:
                others[_introduced(link).index] = link
    return head, others


def _introduced(link: GroupLink) -> Hello:
    while not (news := link.news()):
        if link.ended:
            raise EOFError("another group ended")
        time.sleep(0.002)
        link.take_in()
    return news[0]


def _send_all(link: GroupLink) -> None:
    """Wait until all is sent, but not for ever: the head may be gone."""
    deadline = time.perf_counter() + 2.0
    with suppress(OSError):
        while link.waiting and time.perf_counter() < deadline:
            link.flush()
            time.sleep(0.001)
