import errno
import os
import threading
from collections.abc import Iterator

import pytest

from drumline.runtime.links import IncomingFrames, OutgoingFrames, read_frame, write_frame


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue  # the test has closed it


def test_a_frame_larger_than_the_pipe_waits_in_the_driver(pipe: tuple[int, int]):
    frames, outgoing = [], OutgoingFrames(pipe[1])
    payloads = [bytes([n]) * 300_000 for n in range(3)]
    for payload in payloads:
        outgoing.send(payload)
    assert outgoing.waiting
    reader = threading.Thread(target=lambda: frames.extend(read_frame(pipe[0]) for _ in range(3)))
    reader.start()
    while outgoing.waiting:
        outgoing.flush()
    reader.join()
    assert frames == payloads


def test_a_half_written_frame_is_not_delivered_and_blocks_nothing(pipe: tuple[int, int]):
    incoming = IncomingFrames(pipe[0])
    halves: list[list[bytes]] = []
    write_frame(pipe[1], b"whole", lambda: halves.append(incoming.receive()))
    assert halves == [[]]
    assert incoming.receive() == [b"whole"]
    os.write(pipe[1], b"\x05\x00\x00\x00\x00\x00\x00\x00ab")
    os.close(pipe[1])
    assert incoming.receive() == []
    assert incoming.ended


def test_many_frames_in_one_read_stay_apart(pipe: tuple[int, int]):
    incoming = IncomingFrames(pipe[0])
    for payload in (b"", b"one", b"two"):
        write_frame(pipe[1], payload, lambda: None)
    assert incoming.receive() == [b"", b"one", b"two"]


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT])
def test_a_machine_without_a_route_to_it_is_gone(
    pipe: tuple[int, int], number: int, monkeypatch: pytest.MonkeyPatch
):
    def unreachable(*arguments: object) -> bytes:
        raise OSError(number, os.strerror(number))

    incoming, outgoing = IncomingFrames(pipe[0]), OutgoingFrames(pipe[1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", unreachable)
        patch.setattr(os, "write", unreachable)
        outgoing.send(b"lost")
        assert incoming.receive() == []
    assert incoming.ended
    assert not outgoing.waiting


def test_another_error_of_a_link_is_raised(pipe: tuple[int, int]):
    incoming = IncomingFrames(pipe[0])
    os.close(pipe[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        incoming.receive()


def test_sending_to_a_dead_reader_is_silent(pipe: tuple[int, int]):
    os.close(pipe[0])
    outgoing = OutgoingFrames(pipe[1])
    outgoing.send(b"nobody reads this")
    assert not outgoing.waiting


def test_a_reader_learns_that_the_writer_is_gone(pipe: tuple[int, int]):
    os.close(pipe[1])
    assert read_frame(pipe[0]) is None
