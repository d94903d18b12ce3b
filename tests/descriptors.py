"""Descriptors that this process has open, each with what it leads to."""

import gc
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

_MORE = 1_100  # with the process's own, beyond what `select` knows


def open_descriptors() -> set[tuple[str, str]]:
    """Return the number and the target of each: pipes and sockets have targets of their own.

    What earlier tests left open is collected first. It may close later all the same, where a thread
    holds it, so a test that asks for no more than before is surer than one of counts.
    """
    gc.collect()
    found: set[tuple[str, str]] = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one of the listing
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


@contextmanager
def many_descriptors() -> Generator[None]:
    """Have more descriptors open than `select` takes, so that every new one is too large for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * _MORE:
        pytest.skip(f"this machine allows {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * _MORE), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(_MORE)]
    try:
        yield
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
