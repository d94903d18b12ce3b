"""Threads of torch's operators: set for Drumline's work, and known as they were before."""

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any


def limit_torch(threads: int) -> None:
    """Set the threads of one operator of torch's."""
    unlimited_threads()
    _torch().set_num_threads(threads)


@contextmanager
def one_torch_thread() -> Generator[None]:
    """One thread, for environments and modules of the user's own that use torch, if it is there.

    A sum over two threads has other bits than one over one, and every process is to have the same.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or (threads := torch.get_num_threads()) == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def unlimited_threads() -> int:
    """Return the threads that torch had at the first call, before any `limit_torch`."""
    return _torch().get_num_threads()


def _torch() -> Any:
    return importlib.import_module("torch")
