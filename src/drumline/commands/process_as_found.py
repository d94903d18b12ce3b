"""Generators, threads and arithmetic of the calling process: a call from Python restores them."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drumline import seeding

_LOGGER = logging.getLogger("drumline")
_TURN = threading.RLock()
"""Held by the thread whose call uses the process's generators, threads and kernels."""


@contextmanager
def process_as_found() -> Iterator[None]:
    """Restore the global generators, and torch's threads and choice of kernels, at the end.

    A torch that is loaded meanwhile is left as a fresh one is. Calls from several threads take
    turns: each would change the other's random numbers and arithmetic.
    """
    if not _TURN.acquire(blocking=False):
        _LOGGER.warning(
            "another thread of this process trains or evaluates: this call waits for its end; "
            "processes can train at the same time"
        )
        _TURN.acquire()
    try:
        _fill_standard_descriptors()
        with _restored():
            yield
    finally:
        _TURN.release()


def _fill_standard_descriptors() -> None:
    """Open what is closed of standard input, output and error: a pipe there would be taken."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


@contextmanager
def _restored() -> Iterator[None]:
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    arithmetic: Any = None if torch is None else _arithmetic().now()
    try:
        if torch is not None:  # a caller's float64 would be mixed with the networks' float32
            torch.set_default_dtype(torch.float32)
        with seeding.kept_globals():
            yield
    finally:
        loaded: Any = sys.modules.get("torch")
        if loaded is not None and threads is not None:
            loaded.set_num_threads(threads)
            arithmetic.set()
        elif loaded is not None:
            from drumline.functional.torch_threads import unlimited_threads

            loaded.seed()  # a fresh torch draws its seed
            loaded.set_num_threads(unlimited_threads())
            _arithmetic()().set()


def _arithmetic() -> Any:
    from drumline.functional.torch_devices import Arithmetic  # imports torch

    return Arithmetic
