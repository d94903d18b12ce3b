"""The head of a run's groups: which one it blames, how long it waits, and what it asks its places.

Groups are threads here, which say what a test has them say.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumline.errors import GroupLost, WorkersLost
from drumline.runtime.cluster import groups as groups_module
from drumline.runtime.cluster.group_links import GroupLink, Mesh, called
from drumline.runtime.cluster.group_messages import (
    Begin,
    Built,
    GroupSpec,
    Hello,
    Missed,
    Peers,
)
from drumline.runtime.cluster.groups import Groups
from drumline.runtime.cluster.node_checks import processor

Script = Callable[[int, GroupLink], None]


def work() -> None:
    """Stand for the work of a group; threads do not run it."""


class ThreadPlaces:
    """Places whose groups are threads."""

    host = "127.0.0.1"

    def __init__(self, script: Script):
        self._script = script
        self.looks = 0
        self.lost = ""

    def start(self, index: int, count: int, spec_on: Callable[[str], GroupSpec]) -> "ThreadGroup":
        return ThreadGroup(index, spec_on(self.host), self._script)

    def look(self) -> None:
        self.looks += 1
        if self.lost:
            raise WorkersLost(self.lost)


class ThreadGroup:
    """A group that calls the head, says that it is built, and goes on by its script."""

    where = "a thread"

    def __init__(self, index: int, spec: GroupSpec, script: Script):
        self._index, self._spec, self._script = index, spec, script
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        link = called(self._spec.head, self._spec.token)
        try:
            link.say(Hello(self._index, ("127.0.0.1", 1)))
            if heard(link, Peers):
                link.say(Built({}, processor(), ""))
            if heard(link, Begin):
                self._script(self._index, link)
        finally:
            link.close()

    def ended(self) -> str | None:
        return None if self._thread.is_alive() else "exit code 0"

    def end(self, *, lost: bool = False) -> None:
        """Do nothing: the thread ends with its link."""


def heard(link: GroupLink, kind: type) -> bool:
    """Wait for a message of the head's; False if the link ends before."""
    said: list[Any] = []
    while not any(isinstance(each, kind) for each in said):
        if link.ended:
            return False
        link.take_in()
        said += link.news()
        time.sleep(0.001)
    return True


def send_part(link: GroupLink) -> None:
    link.send_part((1).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"part")


def wait_for_the_end(link: GroupLink) -> None:
    while not link.ended:
        link.take_in()
        time.sleep(0.001)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Groups, ThreadPlaces]]]:
    """Make groups that have begun."""
    made: list[Groups] = []
    monkeypatch.setattr(groups_module, "_LAST_WORDS_SECONDS", 0.2)

    def make(count: int, script: Script, **options: Any) -> tuple[Groups, ThreadPlaces]:
        places = ThreadPlaces(script)
        made.append(Groups(count, work, places=places, log=lambda line: None, **options))
        made[-1].begin(0, None)
        return made[-1], places

    yield make
    for groups in made:
        groups.close()


def look_on(groups: Groups) -> None:
    """Look until that raises."""
    while True:
        groups.look()
        time.sleep(0.01)


def lost_group(groups: Groups) -> GroupLost:
    with pytest.raises(GroupLost) as found:
        look_on(groups)
    return found.value


def test_a_group_that_left_because_it_missed_another_is_not_blamed(
    begun: Callable[..., tuple[Groups, ThreadPlaces]], monkeypatch: pytest.MonkeyPatch
):
    """Its end may be seen first, and its place would be avoided from then on."""

    def script(index: int, link: GroupLink) -> None:
        if index == 1:
            link.say(Missed(2))
        else:
            wait_for_the_end(link)

    groups, _ = begun(3, script)
    blamed: list[int] = []
    monkeypatch.setattr(groups, "_end_all", blamed.append)
    monkeypatch.setattr(groups, "_start", lambda: None)
    lost = lost_group(groups)
    assert lost.index == 1
    groups.again(lost, 0)
    assert blamed == [2]
    monkeypatch.undo()


def test_a_group_has_the_time_of_creation_until_its_first_part(
    begun: Callable[..., tuple[Groups, ThreadPlaces]],
):
    def script(index: int, link: GroupLink) -> None:
        if index == 2:
            send_part(link)
        wait_for_the_end(link)

    groups, _ = begun(3, script, hang_seconds=0.3, creation_seconds=60.0)
    lost = lost_group(groups)  # the head's first swap may have begun: it says nothing of others
    assert lost.index == 2
    assert "hang" in lost.cause


def test_places_that_are_lost_end_the_wait(
    begun: Callable[..., tuple[Groups, ThreadPlaces]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(groups_module, "_PLACES_SECONDS", 0.05)
    groups, places = begun(2, lambda index, link: wait_for_the_end(link))
    looks = places.looks
    while places.looks < looks + 3:
        groups.look()
        time.sleep(0.01)
    places.lost = "the head of the cluster has not answered"
    with pytest.raises(WorkersLost, match="has not answered"):
        look_on(groups)


def test_what_arrives_is_taken_in_while_the_group_is_busy(
    begun: Callable[..., tuple[Groups, ThreadPlaces]],
):
    """With a full buffer here the kernel of the other end would give up the connection."""
    sent = threading.Event()

    def script(index: int, link: GroupLink) -> None:
        header = (1).to_bytes(8, "little") + (1).to_bytes(8, "little")
        link.send_part(header + bytes(64 << 20))
        while link.waiting:
            link.flush()
            time.sleep(0.001)
        sent.set()
        wait_for_the_end(link)

    groups, _ = begun(2, script)
    assert sent.wait(30.0), "nothing was taken in, because this thread does not look"
    assert len(groups.swap([b"own"])[1]) == 64 << 20


def test_a_closed_mesh_takes_nothing_in_any_more():
    others = set(threading.enumerate())
    mesh = Mesh(0, {}, idle=lambda: None)
    (own,) = set(threading.enumerate()) - others
    mesh.close()
    mesh.close()
    own.join(30.0)
    assert not own.is_alive()
