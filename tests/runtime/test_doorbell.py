"""Doorbells: what is heard, by which waiter, and with any descriptor."""

import os
import resource

import pytest

from drumline.runtime.doorbell import BellWait, Doorbell

HIGH = 1_500  # beyond what `select` knows


@pytest.fixture(params=["low", "high"])
def bell(request: pytest.FixtureRequest):
    """A bell whose descriptor is small, or too large for `select`."""
    made = Doorbell.create()
    if request.param == "high":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard <= HIGH:
            pytest.skip(f"this machine allows {hard} descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 1), hard))
        os.dup2(made.read_fd, HIGH, inheritable=False)
        made.close()
        made = Doorbell(HIGH, HIGH)
        yield made
        made.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [None, 60.0, 0.0])
def test_a_bell_that_was_rung_is_heard_once(bell: Doorbell, seconds: float | None):
    waiter = BellWait(bell)
    bell.ring()
    bell.ring()
    assert waiter.wait(seconds) == []
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell.read_fd)


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 0.002])
def test_a_silent_bell_is_waited_for_no_longer_than_said(bell: Doorbell, seconds: float):
    assert BellWait(bell).wait(seconds) == []


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_the_end_of_a_pipe_is_told_beside_the_bell(bell: Doorbell, seconds: float | None):
    read, write = os.pipe()
    waiter = BellWait(bell, [read])
    os.close(write)
    bell.ring()
    assert waiter.wait(seconds) == [read]
    assert waiter.wait(seconds) == [read]
    os.close(read)
