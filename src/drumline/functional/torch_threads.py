"""Threads of torch's operators: set for Drumline's work, and known as they were before."""

from functools import cache

import torch


def limit_torch(threads: int) -> None:
    """Set the threads of one operator of torch's."""
    unlimited_threads()
    torch.set_num_threads(threads)


@cache
def unlimited_threads() -> int:
    """Return the threads that torch had at the first call, before any `limit_torch`."""
    return torch.get_num_threads()
