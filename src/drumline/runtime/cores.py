"""Number of usable cores; imports little, because the command line asks for it."""

import os


def available_cores() -> int:
    """Return the number of cores that this process and its children may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
