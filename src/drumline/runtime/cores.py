"""How much of the machine may be used; imports nothing, because the command line asks it."""

import os


def available_cores() -> int:
    """Return how many cores this process and its children may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
