import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from drumline.errors import GroupLost
from drumline.runtime.cluster.group_links import GroupLink, Mesh, answered, called, listening
from drumline.runtime.cluster.group_messages import Line

TOKEN = b"t" * 32


def pair(token: bytes = TOKEN) -> tuple[GroupLink, GroupLink]:
    """Return both ends of a connection over the loopback."""
    with listening("127.0.0.1") as listener:
        found: list[GroupLink | None] = []
        thread = threading.Thread(target=lambda: found.append(answered(listener, TOKEN)))
        thread.start()
        try:
            caller = called(listener.getsockname(), token)
        finally:
            thread.join()
    assert found[0] is not None
    return caller, found[0]


def meshes(count: int, idle: Callable[[], None] = lambda: None) -> list[Mesh]:
    """Return the meshes of groups that are all connected with each other."""
    links: list[dict[int, GroupLink]] = [{} for _ in range(count)]
    for later in range(count):
        for earlier in range(later):
            links[later][earlier], links[earlier][later] = pair()
    return [Mesh(index, own, idle=idle) for index, own in enumerate(links)]


@pytest.fixture
def three() -> Iterator[list[Mesh]]:
    made = meshes(3)
    yield made
    for mesh in made:
        mesh.close()


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Return the results of works that each run in a thread; exceptions are results, too."""
    found: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            found[number] = works[number]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


@pytest.mark.parametrize("size", [1, 1000, 5_000_003])
def test_every_group_gets_the_bytes_of_every_other(three: list[Mesh], size: int):
    # More than the kernel's buffers hold, in both directions at once.
    own = [np.random.default_rng(k).integers(0, 256, size, np.uint8) for k in range(3)]
    for _ in range(3):
        swapped = at_once([lambda k=k: three[k].swap([b"k", own[k].data]) for k in range(3)])
        for k, found in enumerate(swapped):
            assert list(found) == [other for other in range(3) if other != k]
            for other, chunk in found.items():
                assert bytes(chunk) == b"k" + own[other].tobytes()


def test_arrays_arrive_aligned(three: list[Mesh]):
    found = at_once([lambda k=k: three[k].swap([np.arange(7.0).data]) for k in range(3)])
    for chunks in found:
        for chunk in chunks.values():
            assert np.frombuffer(chunk).ctypes.data % 16 == 0


def test_a_caller_without_the_token_is_refused_before_anything_is_read_from_it():
    with listening("127.0.0.1") as listener:
        address = listener.getsockname()
        refused, wrong = at_once([lambda: answered(listener, TOKEN), lambda: called(address, b"x")])
        assert refused is None
        assert isinstance(wrong, OSError)
        with closing(socket.create_connection(address)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            stranger.shutdown(socket.SHUT_WR)
            assert answered(listener, TOKEN) is None


def test_a_group_that_ends_is_lost_to_those_that_wait_for_it_and_to_no_other(three: list[Mesh]):
    three[2].links[0].send_part(b"\1" + bytes(7) + b"\1" + bytes(7) + b"last")
    three[2].close()
    first, second = at_once([lambda k=k: three[k].swap([b"x"]) for k in range(2)])
    assert {group: bytes(chunk) for group, chunk in first.items()} == {1: b"x", 2: b"last"}
    assert isinstance(second, GroupLost)
    assert second.index == 2


def test_a_wait_looks_after_other_things():
    looks: list[int] = []

    def idle() -> None:
        looks.append(0)
        if len(looks) == 3:
            raise KeyboardInterrupt

    mesh, other = meshes(2, idle)
    with pytest.raises(KeyboardInterrupt):
        mesh.swap([b"x"])
    mesh.close()
    other.close()


def test_bytes_of_another_swap_are_refused(three: list[Mesh]):
    three[1].links[0].send_part(b"\1" + bytes(7) + b"\5" + bytes(7) + b"x")
    three[2].links[0].send_part(b"\1" + bytes(7) + b"\1" + bytes(7) + b"x")
    with pytest.raises(RuntimeError, match="bytes of swap 5 arrived in swap 1"):
        three[0].swap([b"x"])


def test_messages_and_parts_do_not_mix(three: list[Mesh]):
    three[1].links[0].say(Line("before"))
    at_once([lambda k=k: three[k].swap([b"x"]) for k in range(3)])
    three[1].links[0].say(Line("after"))
    link, texts = three[0].links[1], []
    while len(texts) < 2:
        link.take_in()
        texts += [line.text for line in link.news()]
    assert texts == ["before", "after"]


def test_groups_meet_over_ipv6_too():
    try:
        listener = listening("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listener:
        link, found = at_once(
            [
                lambda: called(("::1", listener.getsockname()[1]), TOKEN),
                lambda: answered(listener, TOKEN),
            ]
        )
    for each in (link, found):
        assert isinstance(each, GroupLink)
        each.close()


def test_no_descriptor_is_left():
    before = len(os.listdir("/proc/self/fd"))
    for mesh in meshes(3):
        mesh.close()
    assert len(os.listdir("/proc/self/fd")) == before
