"""Descriptors that this process has open, each with what it leads to."""

import os
from contextlib import suppress


def open_descriptors() -> set[tuple[str, str]]:
    """Return the number and the target of each: pipes and sockets have targets of their own.

    To compare sets, not counts: what earlier tests left open may close meanwhile, whenever Python
    collects it.
    """
    found: set[tuple[str, str]] = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one of the listing
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found
