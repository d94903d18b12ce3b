"""Descriptors that this process has open, each with what it leads to."""

import gc
import os
from contextlib import suppress


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
